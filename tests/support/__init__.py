"""What tests share: gateways, upstreams and servers to run, policies and clients to run them with."""

"""The management API below `/api/v1`, a starlette app: requests of authenticated callers come in and are checked for
role, query and body. JSON goes out, errors as RFC 9457 problems; what is done is decided in `gateway.control`."""

"""The `gateway` command with leases of seconds, for tests that kill a worker and wait for what its siblings do then.

The lease of receipts stays long enough for a live worker on a busy machine: it is renewed three times before it ends.
"""

import sys

from gateway.analytics import counting
from gateway.cli import main
from gateway.receipts import recorder, retention

if __name__ == "__main__":
    recorder.LEASE_SECONDS = 6.0
    retention.INTERVAL_SECONDS = counting.INTERVAL_SECONDS = 0.5
    sys.exit(main())

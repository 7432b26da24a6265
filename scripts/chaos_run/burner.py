"""Burns a share of one core at a priority, until it is stopped: `burner SHARE NICENESS`.

What the honest tenant gets beside this is what any other program that takes as much CPU would cost it on this machine.
"""

import os
import sys
import time

SPIN_SECONDS, REST_SECONDS = 0.002, 0.002


def burn(share: float) -> None:
    began = time.monotonic()
    while True:
        if time.process_time() < share * (time.monotonic() - began):
            end = time.process_time() + SPIN_SECONDS
            while time.process_time() < end:
                pass
        else:
            time.sleep(REST_SECONDS)


if __name__ == "__main__":
    os.nice(int(sys.argv[2]))
    print("burning", flush=True)
    burn(float(sys.argv[1]))

"""The control: burns one core with Python outside the process that is looked at, until its input closes."""

import sys
import threading


def burn() -> None:
    numbers = {str(number): number for number in range(1000)}
    while True:
        sum(numbers[str(number)] for number in range(1000))


if __name__ == "__main__":
    threading.Thread(target=burn, daemon=True).start()
    print("burning", flush=True)
    sys.stdin.read()

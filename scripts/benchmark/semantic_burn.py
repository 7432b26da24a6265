"""The control: burns the CPU that embedding takes, outside the process that is looked at, until its input closes.

The same model on as many threads as the gateway's embedder has; prints a line once it burns.
"""

import sys
import threading

from gateway.semantic.model.files import locate_model
from gateway.semantic.model.onnx_embedder import BOUNDS
from gateway.semantic.model.onnx_model import OnnxModel

TEXT = "How do I change the address of an order that has not been sent yet?"


def burn(model: OnnxModel) -> None:
    while True:
        model.embed_text(TEXT)


def main() -> None:
    model = OnnxModel.load(locate_model())
    for _ in range(BOUNDS.each):
        threading.Thread(target=burn, args=[model], daemon=True).start()
    print("burning", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

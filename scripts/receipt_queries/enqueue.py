"""What the recorder costs a request."""

import time

from gateway.domain.exchange import STAGES, Exchange, Reply
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.ids import make_id
from gateway.receipts.prices import PriceTable
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.rendering import ReceiptRenderer
from gateway.settings import ReceiptSettings
from gateway.stores.memory_receipts import MemoryReceiptStore

ROUNDS, EXCHANGES = 20, 2000
BODY, REPLY = b"x" * 2000, Reply(200, {}, b"x" * 800)


def measure_enqueue() -> float:
    """Microseconds of CPU per exchange, in the best of several rounds: everything that a request waits for."""
    return min(measure_round() for _ in range(ROUNDS)) * 1e6


def measure_round() -> float:
    renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
    recorder = ReceiptRecorder(MemoryReceiptStore(), ReceiptSettings(queue=EXCHANGES), renderer)
    exchanges = [Exchange(make_id(), ANONYMOUS, EMPTY_SNAPSHOT) for _ in range(EXCHANGES)]
    began = time.process_time()
    for exchange in exchanges:
        exchange.times += [time.perf_counter() for _ in STAGES]
        recorder.start(exchange, BODY)
        recorder.watch(exchange, REPLY)
        exchange.http_status, exchange.seconds = 200, 0.1
    recorder.finish(exchanges)
    return (time.process_time() - began) / EXCHANGES

"""A search endpoint of three passages in the gateway's own format: `python examples/retrievers/search_server.py`."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSAGES = (
    ("Refunds", "refunds.md", "A refund takes five working days after the parcel has come back."),
    ("Returns", "returns.md", "Returns are free within thirty days; the label is in the parcel."),
    ("Delivery", "delivery.md", "Orders before noon are sent the same day."),
)


def search(query: str, limit: int) -> list[dict[str, str | float]]:
    """The passages that share most words with a query."""
    wanted = set(re.findall(r"\w{3,}", query.lower()))
    found = []
    for title, source, text in PASSAGES:
        words = set(re.findall(r"\w{3,}", f"{title} {text}".lower()))
        score = len(wanted & words) / (len(wanted) or 1)
        found.append({"title": title, "source": source, "text": text, "score": round(score, 2)})
    return sorted((one for one in found if one["score"]), key=lambda one: -float(one["score"]))[:limit]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps({"results": search(asked["query"], asked["limit"])}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8091), Handler).serve_forever()

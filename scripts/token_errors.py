"""How far token counts are off, by family of models and kind of text.

    python -m scripts.token_errors --references DIR

DIR is a folder into which packages that carry tokenizers were installed:

    pip install --no-deps --target DIR llama-models mistral-common dashscope

A family without a reference is shown as such: its count is an estimate that nothing here can check.
"""

import argparse
import importlib.util
import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

from tiktoken._tiktoken import CoreBPE

from gateway.tokens import FAMILIES, BpeCounter

ROOT = Path(__file__).resolve().parent.parent
PIECE = 2000  # characters that are counted at once, as resources are
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA_3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_OTHERS}"
QWEN = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_OTHERS}"

GERMAN = """\
Die Gewährleistung beträgt fünf Jahre und umfasst Abweichungen über 0,1 % des Messbereichs. Bitte
senden Sie defekte Geräte mit einer kurzen Fehlerbeschreibung an unsere Werkstatt; die Rücksendung
ist für Sie kostenlos. Kündigungen müssen schriftlich erfolgen und gehen uns spätestens drei Monate
vor Ablauf der Vertragslaufzeit zu. Wer personenbezogene Daten verarbeitet, muss die betroffenen
Personen darüber informieren, zu welchem Zweck das geschieht. Im Frühjahr öffnen wir den Garten
wieder für Besucherinnen und Besucher, Führungen beginnen täglich um elf Uhr am Haupteingang.
Überprüfen Sie vor der Inbetriebnahme sämtliche Schraubverbindungen und lassen Sie die Anlage
mindestens zwanzig Minuten im Leerlauf warmlaufen."""
CHINESE = """\
保修期为五年，包括超过满量程百分之零点一的漂移。请将有故障的设备连同简短的故障说明寄到我们的维修中心
，退货运费由我们承担。解除合同必须采用书面形式，并且最迟应在合同期满前三个月送达我方。处理个人信息的
人员必须告知当事人处理的目的和方式。春天我们会重新向游客开放花园，每天上午十一点在正门开始导览。设备
投入运行之前，请检查所有螺栓连接，并让设备空转至少二十分钟。如果您忘记了密码，可以在登录页面点击“忘
记密码”，我们会向您的电子邮箱发送一个链接。订单发货后，您将收到一封包含快递单号的邮件。"""


def list_texts() -> dict[str, list[str]]:
    """Real texts by kind, cut into pieces."""
    documents = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    sources = sorted((ROOT / "gateway").rglob("*.py"))[::4]
    schemas = [json.dumps(read_schema(path)) for path in sources]
    return {
        "English": cut("\n".join(path.read_text() for path in documents)),
        "German": cut(GERMAN),
        "Chinese": cut(CHINESE),
        "code": cut("\n".join(path.read_text() for path in sources)),
        "JSON": cut("\n".join(schemas)),
    }


def read_schema(path: Path) -> object:
    """JSON as tools and databases send it: names, numbers, short texts."""
    lines = path.read_text().splitlines()
    rows = [
        {"line": number, "text": line.strip(), "indent": len(line) - len(line.lstrip())}
        for number, line in enumerate(lines[:40])
    ]
    return {"file": path.name, "lines": rows, "size": path.stat().st_size, "package": path.parent.name}


def cut(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)][:150]


Reference = Callable[[str], int]


def open_references(folder: Path) -> Iterator[tuple[str, str, Reference]]:
    """Family, what the reference is, and its count."""
    for family, path, pattern in (
        ("llama", "llama_models/llama3/tokenizer.model", LLAMA_3),
        ("qwen", "dashscope/resources/qwen.tiktoken", QWEN),
    ):
        if (folder / path).is_file():
            ranks = [b64decode(line.split()[0]) for line in (folder / path).read_bytes().splitlines() if line.strip()]
            yield family, Path(path).name, make_count({token: rank for rank, token in enumerate(ranks)}, pattern)
    tekken = folder / "mistral_common/data/tekken_240911.json"
    if tekken.is_file():
        data = json.loads(tekken.read_text())
        size = data["config"]["default_vocab_size"] - data["config"]["default_num_special_tokens"]
        merges = {b64decode(one["token_bytes"]): int(one["rank"]) for one in data["vocab"][:size]}
        yield "mistral", tekken.name, make_count(merges, data["config"]["pattern"])
    package = importlib.util.find_spec("litellm")
    if package is not None and package.submodule_search_locations:
        old = Path(package.submodule_search_locations[0], "litellm_core_utils/tokenizers/anthropic_tokenizer.json")
        if old.is_file():
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(old))
            yield "claude", "Claude 2's", lambda text: len(tokenizer.encode(text).ids)


def make_count(ranks: dict[bytes, int], pattern: str) -> Reference:
    core = CoreBPE(ranks, {}, pattern)
    return lambda text: len(core.encode_ordinary(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, default=Path("references"))
    folder = parser.parse_args().references
    texts, counter = list_texts(), BpeCounter()
    known = set()
    print(f"{'family':<10}{'reference':<20}" + "".join(f"{kind:>10}" for kind in texts))
    for family, name, reference in open_references(folder):
        known.add(family)
        errors = []
        for pieces in texts.values():
            real = sum(map(reference, pieces))
            errors.append((sum(counter.count(one, family) for one in pieces) - real) / real)
        print(f"{family:<10}{name:<20}" + "".join(f"{error:>+10.1%}" for error in errors))
    for family in sorted(FAMILIES.keys() - known):
        exact = FAMILIES[family].exact
        print(
            f"{family:<10}"
            + ("exact: OpenAI's own table" if exact else "no reference at hand: an estimate with a margin")
        )


if __name__ == "__main__":
    main()

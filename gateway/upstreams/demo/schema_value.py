"""A value that fits a JSON schema, with the demo model's answer in its first free text."""

from typing import Any

import msgspec

MAX_DEPTH = 16  # levels of a schema that are followed; OpenAI allows 10
MAX_VALUES = 1000  # of one document
WORD_VALUES: dict[str, Any] = {"integer": 0, "number": 0, "boolean": False, "null": None}
FORMATS = {
    "date-time": "2000-01-01T00:00:00Z",
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "email": "demo@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "https://example.com",
}


class SchemaWriter(msgspec.Struct):
    """Writes one document; the answer is used for the first string that may hold any text."""

    root: dict[str, Any]
    answer: str
    values: int = 0

    def write(self, schema: Any, depth: int = 0) -> Any:
        """A value for a schema; `null` for what is too deep, too large or not understood."""
        self.values += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self.values > MAX_VALUES:
            return None
        if isinstance(schema.get("$ref"), str):
            return self.write(self._resolve(schema["$ref"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        for name in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                return self.write(schema[name][0], depth + 1)
        return self._write_type(schema, depth)

    def _write_type(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object":
            fields = schema.get("properties")
            wanted = fields if isinstance(fields, dict) else {}
            return {name: self.write(one, depth + 1) for name, one in wanted.items()}
        if kind == "array":
            least = schema.get("minItems")
            count = min(least, MAX_VALUES) if isinstance(least, int) else 1
            return [self.write(schema.get("items"), depth + 1) for _ in range(count)] if "items" in schema else []
        if kind in ("integer", "number"):
            least = schema.get("minimum")
            return least if isinstance(least, int | float) else WORD_VALUES[kind]
        return WORD_VALUES[kind] if kind in WORD_VALUES else self._write_text(schema)

    def _write_text(self, schema: dict[str, Any]) -> str:
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        text, self.answer = self.answer, ""
        longest = schema.get("maxLength")
        return text[:longest] if isinstance(longest, int) and longest >= 0 else text

    def _resolve(self, reference: str) -> Any:
        """What a reference inside the document points at."""
        found: Any = self.root
        for key in reference.removeprefix("#").strip("/").split("/"):
            if key:
                found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found

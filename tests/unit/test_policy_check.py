"""What is said about policies that are valid and cannot have what they want."""

from pathlib import Path

import pytest

from gateway.policy_check import check_policies, list_summary_warnings
from gateway.settings import Settings

RESOURCE = "contexts: {a: {resources: {r: {type: text, truncate: summarize, data: {content: x}}}}}\n"
RECIPE = "recipes: {r: {layers: [{take: body, truncate: summarize}]}}\n"


@pytest.mark.parametrize(
    ("policies", "summaries", "told"),
    [
        (RESOURCE, {}, ["a/r: `truncate: summarize` works as `extractive`, because no model is configured"]),
        (RESOURCE, {"model": "gpt"}, ["a/r: `truncate: summarize` works as `extractive`, because no route leads to"]),
        (RECIPE, {}, ["a recipe: `truncate: summarize` works as `extractive`, because no model is configured"]),
        (RESOURCE, {"model": "demo"}, []),
        (RESOURCE.replace("summarize", "extractive"), {}, []),
    ],
)
def test_nobody_can_summarize(tmp_path: Path, policies: str, summaries: dict[str, str], told: list[str]) -> None:
    (tmp_path / "p.yaml").write_text(policies)
    given = {
        "policies": str(tmp_path),
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "demo*", "upstream": "demo"}],
        "summaries": summaries,
    }
    settings = Settings.model_validate(given)
    warnings = list(list_summary_warnings(settings, check_policies(settings)))
    assert [warning.startswith(start) for warning, start in zip(warnings, told, strict=True)] == [True] * len(told)

import pytest
from pydantic import ValidationError

from gateway.domain.material import FileMaterial, LinkMaterial
from gateway.resources.brand_voice import BrandVoiceData, BrandVoiceType
from gateway.resources.document import DocumentType
from gateway.resources.external_link import ExternalLinkType
from gateway.resources.glossary import GlossaryType
from gateway.resources.text import TextType


def rendered(kind, data, material=None):
    return kind.render(kind.data.model_validate(data), material)


def test_a_voice_is_a_line_per_trait_in_fixed_order():
    data = {"avoid": "Superlatives", "style": "Short", "audience": "Buyers", "tone": "Warm"}
    assert rendered(BrandVoiceType(), data) == "Tone: Warm\nAudience: Buyers\nStyle: Short\nAvoid: Superlatives"


@pytest.mark.parametrize("empty", ["", "  ", None, [], [" "]])
def test_an_empty_trait_is_left_out(empty):
    assert rendered(BrandVoiceType(), {"tone": "Warm", "avoid": empty}) == "Tone: Warm"


def test_a_trait_may_be_a_list():
    assert rendered(BrandVoiceType(), {"avoid": ["jargon", "puns"]}) == "Avoid: jargon; puns"


def test_a_narrow_voice_takes_only_what_it_lacks_from_the_broad_one():
    narrow, broad = BrandVoiceData(tone="Cheeky"), BrandVoiceData(tone="Formal", avoid="Slang")
    assert BrandVoiceType().merge(narrow, broad) == BrandVoiceData(tone="Cheeky", avoid="Slang")


def test_voices_share_a_clash_key():
    assert BrandVoiceType.conflict_key == "voice"
    assert TextType.conflict_key is None


def test_text_is_given_as_it_stands():
    assert rendered(TextType(), {"content": " Keep *this*.\n"}) == " Keep *this*.\n"


@pytest.mark.parametrize(
    "terms",
    [
        {"SKU": "Stock unit", "PO": "Order"},
        [{"term": "SKU", "definition": "Stock unit"}, {"term": "PO", "definition": "Order"}],
    ],
)
def test_a_glossary_is_a_list_or_a_mapping(terms):
    expected = "Glossary - Use these terms consistently:\n- SKU: Stock unit\n- PO: Order"
    assert rendered(GlossaryType(), {"terms": terms}) == expected


def test_a_document_by_path_names_its_file():
    data = DocumentType.data.model_validate({"path": "docs/style.pdf"})
    assert DocumentType().material(data) == FileMaterial("docs/style.pdf")
    assert DocumentType().render(data, "Use commas.") == "Use commas."


def test_a_document_by_content_needs_no_file():
    data = DocumentType.data.model_validate({"content": "Use commas.", "mime_type": "text/markdown"})
    assert DocumentType().material(data) is None
    assert DocumentType().render(data, None) == "Use commas."


def test_html_content_is_reduced_to_its_text():
    assert rendered(DocumentType(), {"content": "<p>Use <b>commas</b>.</p>", "mime_type": "text/html"}) == "Use commas."


def test_a_link_without_an_interval_leaves_it_to_the_configuration():
    url = "https://example.com/rules"
    assert ExternalLinkType().material(ExternalLinkType.data(url=url)) == LinkMaterial(url, 0)
    assert ExternalLinkType().material(ExternalLinkType.data(url=url, interval=60)) == LinkMaterial(url, 60)


def test_a_link_renders_its_copy():
    assert rendered(ExternalLinkType(), {"url": "https://example.com/"}, "Page") == "Page"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (BrandVoiceType, {}),
        (BrandVoiceType, {"tone": " "}),
        (BrandVoiceType, {"mood": "x"}),
        (BrandVoiceType, {"tone": 5}),
        (BrandVoiceType, {"tone": ["a", 5]}),
        (TextType, {"content": ""}),
        (TextType, {"content": " \n"}),
        (TextType, {}),
        (GlossaryType, {"terms": []}),
        (GlossaryType, {"terms": {"SKU": ""}}),
        (GlossaryType, {"terms": [{"term": "SKU", "definition": "a"}, {"term": "SKU", "definition": "b"}]}),
        (DocumentType, {}),
        (DocumentType, {"path": "a.md", "content": "b"}),
        (DocumentType, {"path": " "}),
        (DocumentType, {"content": "b", "mime_type": "application/pdf"}),
        (DocumentType, {"path": "a.md", "mime_type": "image/png"}),
        (DocumentType, {"path": "a.md", "mime_type": "application/pdf"}),
        (ExternalLinkType, {"url": "ftp://example.com/"}),
        (ExternalLinkType, {"url": "https://example.com/", "interval": 59}),
        (ExternalLinkType, {"url": "https://example.com/", "interval": 0}),
    ],
)
def test_bad_data_is_refused(kind, data):
    with pytest.raises(ValidationError):
        kind.data.model_validate(data)

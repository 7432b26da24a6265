"""How foreign a text is to a model that was trained on English."""

import pytest

from gateway.semantic.search.languages import FOREIGN_LATIN, foreignness


@pytest.mark.parametrize(
    "text", ["How do I get a refund?", "refund policy", "42", "", "def get_user(name): return name"]
)
def test_english_and_what_gives_no_sign_are_at_home(text: str) -> None:
    assert foreignness(text) == 0


@pytest.mark.parametrize(
    "text",
    ["Wie bekomme ich mein Geld von der Bank zurück?", "¿Cómo pido la devolución de una compra?", "Où est la gare ?"],
)
def test_another_latin_language_is_half_foreign(text: str) -> None:
    assert foreignness(text) == FOREIGN_LATIN


def test_one_foreign_name_does_not_make_an_english_question_foreign() -> None:
    assert foreignness("What is the way to the Café de Paris in this town?") == 0


@pytest.mark.parametrize("text", ["如何申请退款？", "Как вернуть деньги?", "返金するには？"])
def test_another_script_is_foreign_through_and_through(text: str) -> None:
    assert foreignness(text) == 1


def test_mixed_scripts_lie_between() -> None:
    assert 0 < foreignness("GPU 训练") < 1

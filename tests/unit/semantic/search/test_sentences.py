"""A question cut into what is searched for."""

import time

import pytest

from gateway.semantic.search.sentences import LONGEST, MOST, needs_context, split_query, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "How do I reset my password? And where are my invoices kept?",
            ["How do I reset my password?", "And where are my invoices kept?"],
        ),
        ("Ask Dr. Miller about the order, e.g. by mail.", ["Ask Dr. Miller about the order, e.g. by mail."]),
        ("The price is 3.50 per unit for version 2.0 users", ["The price is 3.50 per unit for version 2.0 users"]),
        ("Hello there! How do I reset my password?", ["Hello there! How do I reset my password?"]),
        ("怎么申请退款到银行卡？发票在哪里可以下载？", ["怎么申请退款到银行卡？", "发票在哪里可以下载？"]),
        (
            "- export all invoices as a file\n- cancel the running subscription",
            ["export all invoices as a file", "cancel the running subscription"],
        ),
        ("How do I get a refund? How much is shipping?", ["How do I get a refund?", "How much is shipping?"]),
        ("Hi! How much is shipping? Thanks.", ["Hi! How much is shipping? Thanks."]),
        ("I lost my card. Can you help me?", ["I lost my card. Can you help me?"]),
        ("Compare:\n- the price of lamps\n- the price of oil", ["Compare: the price of lamps", "the price of oil"]),
        ("- red\n- green and blue", ["red green and blue"]),
        ("Where is my parcel and how do I get a refund?", ["Where is my parcel", "how do I get a refund?"]),
        (
            "Wann kommt mein neues Paket, und wie bekomme ich mein Geld zurück?",
            ["Wann kommt mein neues Paket", "wie bekomme ich mein Geld zurück?"],
        ),
        ("¿Cuánto cuesta el envío y dónde está mi paquete?", ["¿Cuánto cuesta el envío", "dónde está mi paquete?"]),
        ("What is a top-up and where can I find it?", ["What is a top-up and where can I find it?"]),
        ("I paid twice and was charged a fee for that", ["I paid twice and was charged a fee for that"]),
        ("It worked so far but when I tried again it failed", ["It worked so far but when I tried again it failed"]),
        ("Which lamps are red or blue and how much?", ["Which lamps are red or blue and how much?"]),
        ("", []),
        ("?!\n…", []),
    ],
)
def test_a_text_becomes_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_a_long_message_keeps_its_last_sentences_in_one() -> None:
    found = split_sentences(" ".join(f"This is the sentence with number {number}." for number in range(20)))
    assert len(found) == MOST
    assert "number 7." in found[-1]
    assert "number 18." in found[-1]


def test_an_endless_sentence_is_cut() -> None:
    assert [len(found) for found in split_sentences("word " * 1000)] == [LONGEST]


@pytest.mark.parametrize("text", ["and in German?", "why?", "What about that one then?", "那怎么办？", "ok"])
def test_a_follow_up_needs_what_was_said_before(text: str) -> None:
    assert needs_context(text)


@pytest.mark.parametrize("text", ["How do I reset my password on the phone?", "Where can I download invoices?"])
def test_a_whole_question_stands_alone(text: str) -> None:
    assert not needs_context(text)


def test_a_follow_up_is_searched_with_the_turns_before_it() -> None:
    earlier = ["What is the refund policy for shoes?", "I bought some shoes in the online shop.", "Long ago."]
    assert split_query("and in German?", earlier).sentences == (
        "I bought some shoes in the online shop. What is the refund policy for shoes? and in German?",
    )


def test_a_question_that_stands_alone_ignores_earlier_turns() -> None:
    question = "How do I reset my password on the phone?"
    assert split_query(question, ["Tell me about shoes and socks."]).sentences == (question,)


def test_a_follow_up_without_anything_before_it_is_searched_as_it_is() -> None:
    assert split_query("and in German?").sentences == ("and in German?",)


def test_several_sentences_are_searched_together_and_one_by_one() -> None:
    first, second = "My card has not arrived after two weeks.", "Can you tell me where it is now?"
    assert split_query(f"{first} {second}").sentences == (f"{first} {second}", first, second)


@pytest.mark.parametrize("unit", ["a. ", "ab\n", "x1.5;\n", "Hi! ", "How do I return it? ", "e.g. ", "and how do I "])
def test_what_is_not_searched_for_is_hardly_looked_at(unit: str) -> None:
    """A question is split on the event loop: others wait for it."""
    text = unit * (20_000 // len(unit))
    split_sentences(text)
    best = min(measure(text) for _ in range(5))
    assert best < 0.015, f"{best * 1000:.1f} ms"


def measure(text: str) -> float:
    began = time.thread_time()
    split_sentences(text)
    return time.thread_time() - began


def test_the_end_of_a_long_text_makes_no_difference() -> None:
    sentences = " ".join(f"This is sentence number {number} of a long message." for number in range(100))
    assert split_sentences(sentences) == split_sentences(sentences + " And this one is never read by anybody." * 100)

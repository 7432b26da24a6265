"""A shop for lamps: many things to know, and a conversation of twenty questions that goes through them."""

from typing import Any


def know(name: str, description: str, content: str) -> dict[str, Any]:
    return {
        "type": "text",
        "mode": "semantic",
        "name": name,
        "description": description,
        "data": {"content": content},
    }


RULES = (
    "Answer the question first, in at most three sentences. Never ask for a password. Hand over to a person when "
    "someone mentions injury, smoke or a burning smell. Offer one next step."
)
KNOWN: dict[str, Any] = {
    "delivery": know(
        "Delivery",
        "How long orders take and what delivery costs",
        "Orders placed before 14:00 leave on the same working day. "
        "Delivery takes two working days in Germany and four in Austria, France and Denmark. "
        "It is free above 40 euros and costs 3.90 euros below.",
    ),
    "returns": know(
        "Returns",
        "How to send something back, and when the money arrives",
        "A purchase can be sent back within 60 days, with or without its box. "
        "Print the label from your account; the parcel is free. "
        "The money is back on your account five working days after we have the parcel.",
    ),
    "warranty": know(
        "Warranty",
        "What happens when a lamp breaks",
        "A lamp that fails within three years is replaced free of charge. "
        "We need the order number and a photo of the lamp. "
        "Broken glass is not covered.",
    ),
    "payment": know(
        "Payment",
        "Ways to pay, invoices and vouchers",
        "Pay by card, invoice or bank transfer. "
        "An invoice is due after 14 days. "
        "A voucher is entered in the last step and cannot be paid out.",
    ),
    "pairing": know(
        "Pairing with the app",
        "Connecting a lamp to the app",
        "Hold the button for five seconds until the lamp blinks blue, then choose it in the app. "
        "A lamp that blinks red has lost its network: bring it closer to the router and start again.",
    ),
    "bulbs": know(
        "Bulbs and sockets",
        "Which bulb fits into which lamp",
        "Table lamps have an E14 socket, floor lamps E27 and spots GU10. "
        "Use LED bulbs of at most 9 watts. "
        "The colour temperature is printed on the box in kelvin.",
    ),
    "cleaning": know(
        "Cleaning",
        "How to clean lamps and shades",
        "Unplug the lamp and let it cool down. "
        "Wipe metal with a damp cloth and brush fabric shades with a soft brush. "
        "Never use solvents or a dishwasher.",
    ),
    "privacy": know(
        "Personal data",
        "What is stored about customers, newsletters and cookies",
        "We store name, address and orders for ten years because the law asks for it. "
        "The newsletter needs consent and can be cancelled with one click. "
        "Cookies for statistics are set only after consent.",
    ),
    "timers": know(
        "Timers and scenes",
        "Switching lamps on and off automatically",
        "A timer in the app switches a lamp on or off at a fixed time or at sunset. "
        "A scene sets several lamps at once. "
        "Both work without the internet once they are stored in the lamp.",
    ),
    "shops": know(
        "Shops",
        "Addresses and opening hours of our shops",
        "Our shops are in Hamburg, Vienna and Aarhus, open from Monday to Saturday, 10:00 to 19:00. "
        "Everything can be tried there, and returns are taken at the counter.",
    ),
    "jobs": know(
        "Working with us",
        "Open positions and how to apply",
        "Open positions are listed on the page for jobs. "
        "Send a CV and two sentences on why; we answer within two weeks. "
        "Interns are paid.",
    ),
}
INSTRUCTIONS = "You help the customers of a shop for lamps."


def help_at_the_desk(**settings: Any) -> dict[str, Any]:
    """An agent that knows all of it."""
    return {"contexts": ["desk"], "instructions": INSTRUCTIONS, **settings}


POLICIES: dict[str, Any] = {
    "contexts": {"desk": {"resources": {"rules": {"type": "text", "data": {"content": RULES}}, **KNOWN}}},
    "agents": {
        "desk": help_at_the_desk(),
        "turn": help_at_the_desk(placement="turn"),
        "sticky": help_at_the_desk(placement="turn", selection={"sticky": True}),
        "sticky-user": help_at_the_desk(placement="turn_user", selection={"sticky": True}),
        "sticky-system": help_at_the_desk(selection={"sticky": True}),
    },
}
QUESTIONS = (
    "How long does delivery to Austria take?",
    "And what does it cost for an order of 30 euros?",
    "My floor lamp needs a new bulb. Which socket does it have?",
    "How many watts may the bulb have?",
    "Can I pay by invoice?",
    "When is the invoice due?",
    "I have a voucher too. Where do I enter it?",
    "My old lamp stopped working after two years. Is it covered by the warranty?",
    "What do you need from me to replace it?",
    "How long will the replacement take to get to Vienna?",
    "Is there a shop in Vienna where I could bring it?",
    "Until when is the shop open on Saturday?",
    "How do I connect the new lamp to the app?",
    "It blinks red now. What does that mean?",
    "Can the app switch it on at sunset?",
    "Does the timer work when the internet is down?",
    "How do I clean the fabric shade?",
    "If I do not like it, can I send it back without the box?",
    "When do I get my money back?",
    "And what do you store about me when I order?",
)
ANSWER = (
    "Here is what I found for you, in short: it works as described in our help pages, and the details depend on your "
    "order. Would you like me to look at your order, or is there something else that I can check for you today?"
)


def list_messages(number: int) -> list[dict[str, str]]:
    """The messages of the request for a question, counted from 0."""
    before = [
        message
        for question in QUESTIONS[:number]
        for message in ({"role": "user", "content": question}, {"role": "assistant", "content": ANSWER})
    ]
    return [*before, {"role": "user", "content": QUESTIONS[number]}]

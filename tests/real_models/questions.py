"""What models are asked without tools, and what is right: patterns that an answer must hold, or values."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

QUESTIONS = (
    ("What is the capital of France? One word.", r"\bparis\b"),
    ("What is 12 times 12? Only the number.", r"\b144\b"),
    ("What is 7 + 15? Only the number.", r"\b22\b"),
    ("How many days does a week have?", r"\b(7|seven)\b"),
    ("Which planet is known as the Red Planet?", r"\bmars\b"),
    ("What is the chemical formula of water?", r"\bH(2|₂)O\b"),
    ("What is the opposite of hot?", r"\bcold\b"),
    ("Who wrote Romeo and Juliet?", r"shakespeare"),
    ("What is the largest ocean on Earth?", r"pacific"),
    ("What is 100 divided by 4? Only the number.", r"\b25\b"),
    ("Which language is mostly spoken in Brazil?", r"portuguese"),
    ("In Python, which keyword defines a function?", r"\bdef\b"),
    ("What is the square root of 81? Only the number.", r"\b(9|nine)\b"),
    ("What color do you get when you mix blue and yellow?", r"\bgreen\b"),
    ("How many legs does a spider have?", r"\b(8|eight)\b"),
    ("What is the first month of the year?", r"january"),
    ("Translate 'dog' into Spanish. One word.", r"\bperro\b"),
    ("What is the capital of Japan? One word.", r"\btokyo\b"),
    ("Which animal says 'meow'?", r"\bcat\b"),
    ("What comes next: 2, 4, 6, 8, ...? Only the number.", r"\b10\b"),
    ("Is the sun a star or a planet?", r"\bstar\b"),
    ("Which HTTP status code means 'not found'?", r"\b404\b"),
    ("How many minutes are in two hours? Only the number.", r"\b120\b"),
    ("What is the boiling point of water at sea level in degrees Celsius?", r"\b100\b"),
)


def record(**properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


NAME: Json = {"type": "string", "maxLength": 40}
WHOLE: Json = {"type": "integer", "minimum": 0, "maximum": 100000}
FLAG: Json = {"type": "boolean"}
MANY: Json = {"type": "array", "items": NAME, "minItems": 1, "maxItems": 5}

VALUES: tuple[tuple[str, Json, Any], ...] = (
    (
        "Anna Berg is 34 years old and lives in Oslo. Extract name, age and city as JSON.",
        record(name=NAME, age=WHOLE, city=NAME),
        {"name": "Anna Berg", "age": 34, "city": "Oslo"},
    ),
    (
        "'The food was terrible and cold.' What is the sentiment? Answer as JSON.",
        record(sentiment={"enum": ["positive", "negative", "neutral"]}),
        {"sentiment": "negative"},
    ),
    (
        "'I loved every minute of it!' What is the sentiment? Answer as JSON.",
        record(sentiment={"enum": ["positive", "negative", "neutral"]}),
        {"sentiment": "positive"},
    ),
    (
        "Name the three primary colours red, yellow and blue as a JSON list, in this order.",
        record(colours={"type": "array", "items": NAME, "minItems": 3, "maxItems": 3}),
        {"colours": ["red", "yellow", "blue"]},
    ),
    ("Is 17 a prime number? Answer as JSON.", record(number=WHOLE, prime=FLAG), {"number": 17, "prime": True}),
    ("What is 15 + 27? Give the steps and the result as JSON.", record(steps=MANY, result=WHOLE), {"result": 42}),
    (
        "The invoice 2024-117 of 12 March 2024 is over 250 euros. Extract number and amount as JSON.",
        record(number=NAME, amount=WHOLE),
        {"number": "2024-117", "amount": 250},
    ),
    (
        "A book: 'Dune' by Frank Herbert, published in 1965. Give it as JSON.",
        record(title=NAME, author=NAME, year=WHOLE),
        {"title": "Dune", "author": "Frank Herbert", "year": 1965},
    ),
    (
        "The shop has 3 apples and 5 pears. How many of each, as JSON?",
        record(fruits=record(apples=WHOLE, pears=WHOLE)),
        {"fruits": {"apples": 3, "pears": 5}},
    ),
    (
        "Tom (41) and Ada (29) work here. List them as JSON.",
        record(people={"type": "array", "items": record(name=NAME, age=WHOLE), "minItems": 1, "maxItems": 3}),
        {"people": [{"name": "Tom", "age": 41}, {"name": "Ada", "age": 29}]},
    ),
    (
        "Which of these is a fruit: car, banana, house? Answer as JSON.",
        record(answer={"enum": ["car", "banana", "house"]}),
        {"answer": "banana"},
    ),
    (
        "Write to sales@shop.example about the ticket TKT-55. Extract the address and the ticket as JSON.",
        record(address=NAME, ticket={"type": "string", "pattern": "^TKT-[0-9]{2}$"}),
        {"address": "sales@shop.example", "ticket": "TKT-55"},
    ),
)
"""(question, schema, members of the right value)."""

PATTERNS = (
    (
        "The meeting is on 3 May 2024. Write the date as YYYY-MM-DD.",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
        'root ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2}',
        "2024-05-03",
    ),
    (
        "The train leaves at half past two in the afternoon. Write the time as HH:MM (24 hours).",
        r"[0-9]{2}:[0-9]{2}",
        'root ::= [0-9]{2} ":" [0-9]{2}',
        "14:30",
    ),
    (
        "What is pure red as a hexadecimal colour, with # in front?",
        r"#[0-9a-f]{6}",
        'root ::= "#" [0-9a-f]{6}',
        "#ff0000",
    ),
    (
        "Which version is named here: 'We run release 2.14.3 of the server'?",
        r"[0-9]+\.[0-9]+\.[0-9]+",
        'root ::= [0-9]+ "." [0-9]+ "." [0-9]+',
        "2.14.3",
    ),
    (
        "The host answers at 10.0.0.17, port 80. What is its IP address?",
        r"[0-9]{1,3}(\.[0-9]{1,3}){3}",
        'root ::= [0-9]{1,3} ("." [0-9]{1,3}){3}',
        "10.0.0.17",
    ),
    ("Is Berlin in Germany? Answer yes or no.", r"yes|no", 'root ::= "yes" | "no"', "yes"),
    ("What is 9 times 9?", r"[0-9]{1,3}", "root ::= [0-9]{1,3}", "81"),
    (
        "Write the initials of John Ronald Tolkien in capitals with a dot behind each.",
        r"([A-Z]\.){3}",
        'root ::= ([A-Z] "."){3}',
        "J.R.T.",
    ),
)
"""(question, pattern, the same as GBNF, the right text)."""

SENTIMENTS = ("positive", "negative", "neutral")
CHOICES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Sentiment of: 'What a wonderful day!'", SENTIMENTS, "positive"),
    ("Sentiment of: 'This is the worst phone I have ever had.'", SENTIMENTS, "negative"),
    ("Sentiment of: 'I hate waiting.'", SENTIMENTS, "negative"),
    ("In which language is this: 'Guten Morgen, wie geht es dir?'", ("English", "French", "German"), "German"),
    ("In which language is this: 'Où est la gare?'", ("English", "French", "German"), "French"),
    ("What is the capital of Italy?", ("Milan", "Rome", "Naples"), "Rome"),
    ("Which number is the largest?", ("12", "7", "31"), "31"),
    ("Is a whale a mammal?", ("yes", "no"), "yes"),
    ("Which one is a programming language?", ("Python", "Banana", "Chair"), "Python"),
    ("An e-mail says: 'I cannot sign in.' Which team should get it?", ("billing", "login", "sales"), "login"),
)

COMPLETIONS = (
    ("The capital of France is", r"paris"),
    ("def add(a, b):\n    return", r"^\s*a \+ b"),
    ("Monday, Tuesday, Wednesday,", r"thursday"),
    ("1, 2, 3, 4, 5,", r"6"),
    ("Water freezes at 0 degrees", r"celsius"),
    ("import numpy as", r"^\s*np"),
    ("To be, or not to be, that is the", r"question"),
    ("The quick brown fox jumps over the lazy", r"dog"),
)


def document() -> str:
    """Some 3,500 tokens of a report with a few facts in it, far apart."""
    facts = {
        20: "The code word for the archive is Marigold.",
        90: "The new bridge over the river Tarn cost 48 million euros.",
        160: "The director of the museum is Dr. Helene Brandt.",
    }
    themes = ("roads", "schools", "parks", "libraries", "markets", "bridges", "theatres")
    lines = []
    for number in range(1, 176):
        theme = themes[number % len(themes)]
        lines.append(
            facts.get(
                number, f"Section {number} of the report is about {theme} and says that they were kept as they are."
            )
        )
    return "\n".join(lines)  # fmt: skip


DOCUMENT = document()
IN_DOCUMENT = (
    ("What is the code word for the archive?", r"marigold"),
    ("How many million euros did the bridge over the river Tarn cost?", r"\b48\b"),
    ("What is the name of the director of the museum?", r"brandt"),
)

REMEMBERED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("My name is Greta and I live in Bern.", "Name one colour.", "What is my name?"), r"greta"),
    (("Remember the number 4711.", "What is the capital of Spain?", "Which number should you remember?"), r"4711"),
    (("My dog is called Rufus.", "How many legs does a dog have?", "What is my dog called?"), r"rufus"),
    (("I like tea better than coffee.", "Say hello.", "Which drink do I like better, tea or coffee?"), r"\btea\b"),
)


NEAREST = (
    (
        "A cat sleeps on the sofa.",
        ("A kitten naps on the couch.", "The stock market fell today.", "He repairs bicycles."),
    ),
    (
        "How do I reset my password?",
        ("I forgot my login credentials.", "The soup needs more salt.", "Trains run every hour."),
    ),
    ("The doctor prescribed medicine.", ("A physician gave me pills.", "We painted the fence.", "The lake is frozen.")),
    (
        "Python is a programming language.",
        ("Developers write code in it.", "Apples are red.", "The choir sang loudly."),
    ),
    (
        "Paris is the capital of France.",
        ("The French government sits there.", "My shoes are wet.", "The engine makes noise."),
    ),
    ("It will rain tomorrow.", ("The forecast says showers.", "She plays the violin.", "Two plus two is four.")),
)
"""(text, others, of which the first is the nearest)."""

"""A hundred questions whose answers have a type: ten of each of ten types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

Team = Literal["billing", "login", "sales"]


@dataclass
class Person:
    name: str
    age: int


@dataclass
class Ticket:
    area: Literal["billing", "login", "other"]
    urgent: bool


@dataclass
class Trip:
    origin: str
    destination: str
    nights: int


@dataclass
class Order:
    customer: Person
    items: list[str]


INTEGERS = (
    ("Which of these numbers is even: 7, 9, 12? Give the number.", 12),
    ("Add 17 and 25.", 42),
    ("How many legs does a spider have?", 8),
    ("How many minutes are in two hours?", 120),
    ("In which year did the Second World War end?", 1945),
    ("'Flat for rent: 3 rooms, 78 square metres, fourth floor.' How many square metres?", 78),
    ("'We sold 240 tickets on Monday.' How many tickets?", 240),
    ("What is the largest of 14, 93, 27 and 58?", 93),
    ("How many letters has the English alphabet?", 26),
    ("What is 9 times 7?", 63),
)
FLOATS = (
    ("'The parcel weighs 2.4 kg.' How many kilograms?", 2.4),
    ("What is half of 5?", 2.5),
    ("'Total: 19.99 euros.' What is the total?", 19.99),
    ("What is pi to two decimals?", 3.14),
    ("'It was -3.5 degrees this morning.' How many degrees?", -3.5),
    ("What is 0.5 + 0.25?", 0.75),
    ("'A pint is 0.57 litres.' How many litres is a pint?", 0.57),
    ("'He ran 42.2 kilometres.' How many kilometres?", 42.2),
    ("What is a quarter as a decimal number?", 0.25),
    ("'The rate rose to 4.1 percent.' What is the rate?", 4.1),
)
FLAGS = (
    ("Is Paris the capital of France?", True),
    ("Is 2 + 2 equal to 5?", False),
    ("Is a whale a mammal?", True),
    ("Is the sun a planet?", False),
    ("Does 'I will pay tomorrow' say that it is paid already?", False),
    ("Is Python a programming language?", True),
    ("Is water dry?", False),
    ("Is 10 greater than 3?", True),
    ("Can penguins fly?", False),
    ("Is Tokyo in Japan?", True),
)
TEAMS = (
    ("Which team should get this: 'My invoice is wrong'?", "billing"),
    ("Which team should get this: 'I forgot my password'?", "login"),
    ("Which team should get this: 'I want to buy 20 licences'?", "sales"),
    ("Which team should get this: 'You charged my card twice'?", "billing"),
    ("Which team should get this: 'The sign-in page says wrong user'?", "login"),
    ("Which team should get this: 'Please send me an offer for 50 seats'?", "sales"),
    ("Which team should get this: 'When is my refund paid?'", "billing"),
    ("Which team should get this: 'My account is locked'?", "login"),
    ("Which team should get this: 'Do you have a discount for schools?'", "sales"),
    ("Which team should get this: 'I need a receipt for my payment'?", "billing"),
)
LISTS = (
    ("Name the three primary colours red, yellow, blue, in this order.", ["red", "yellow", "blue"]),
    ("List the cities: 'We visited Rome, Athens and Cairo.'", ["Rome", "Athens", "Cairo"]),
    ("List the fruits: 'I bought an apple, a pear and a plum.'", ["apple", "pear", "plum"]),
    ("List the names: 'Tom, Ada and Max came.'", ["Tom", "Ada", "Max"]),
    ("Which files are named: 'Open a.txt and b.txt'?", ["a.txt", "b.txt"]),
    ("List the two tools: 'Bring a hammer and a saw.'", ["hammer", "saw"]),
    ("Split at the commas: one,two,three", ["one", "two", "three"]),
    ("List the languages: 'She speaks French and German.'", ["French", "German"]),
    ("Give the first three letters of the alphabet in lower case.", ["a", "b", "c"]),
    ("List the animals: 'A cat sat beside a dog.'", ["cat", "dog"]),
)
PERSONS = (
    ("Tom Miller is 52 years old.", Person("Tom Miller", 52)),
    ("Ada Jones, aged 29, works here.", Person("Ada Jones", 29)),
    ("Our oldest member is Rosa Klein; she is 91.", Person("Rosa Klein", 91)),
    ("Name: Ben Ito. Age: 17.", Person("Ben Ito", 17)),
    ("The winner, Lea Roth (34), thanked everyone.", Person("Lea Roth", 34)),
    ("I am called Omar Said and I am 40 years old.", Person("Omar Said", 40)),
    ("Mia Lund turned 6 yesterday.", Person("Mia Lund", 6)),
    ("Jan Novak is sixty-one years old.", Person("Jan Novak", 61)),
    ("A 23-year-old student, Eva Marsh, found it.", Person("Eva Marsh", 23)),
    ("Dr. Paul Weiss, 58, leads the clinic. Give his name without the title.", Person("Paul Weiss", 58)),
)
TICKETS = (
    ("I cannot sign in since this morning, it is urgent!", Ticket("login", urgent=True)),
    ("My invoice has a wrong address. There is no hurry.", Ticket("billing", urgent=False)),
    ("Urgent: you charged me 900 euros by mistake!", Ticket("billing", urgent=True)),
    ("I would like to change my password some day, not urgent.", Ticket("login", urgent=False)),
    ("The office chair is broken. Not urgent.", Ticket("other", urgent=False)),
    ("HELP! The login page is down and all of us wait! Urgent!", Ticket("login", urgent=True)),
    ("When you have time, please send last year's invoices.", Ticket("billing", urgent=False)),
    ("Please repair the coffee machine at once, this is urgent.", Ticket("other", urgent=True)),
    ("The payment failed and the deadline is in one hour, urgent!", Ticket("billing", urgent=True)),
    ("Signing in takes a little long; no hurry.", Ticket("login", urgent=False)),
)
TRIPS = (
    ("I travel from Rome to Athens and stay for 3 nights.", Trip("Rome", "Athens", 3)),
    ("Five nights in Lisbon, leaving from Berlin.", Trip("Berlin", "Lisbon", 5)),
    ("We fly from Oslo to Tokyo for 10 nights.", Trip("Oslo", "Tokyo", 10)),
    ("A train from Paris to Vienna, then 2 nights there.", Trip("Paris", "Vienna", 2)),
    ("From: Madrid. To: Porto. Nights: 4.", Trip("Madrid", "Porto", 4)),
    ("Book Cairo to Dubai, one night.", Trip("Cairo", "Dubai", 1)),
    ("She leaves Prague for Riga and stays seven nights.", Trip("Prague", "Riga", 7)),
    ("Take me to Naples from Milan for 6 nights.", Trip("Milan", "Naples", 6)),
    ("Boston to Chicago, 3 nights, please.", Trip("Boston", "Chicago", 3)),
    ("We start in Bern and spend 8 nights in Nice.", Trip("Bern", "Nice", 8)),
)
ORDERS = (
    ("Tom Miller (52) orders bread and milk.", Order(Person("Tom Miller", 52), ["bread", "milk"])),
    ("Ada Jones, 29, wants a pen.", Order(Person("Ada Jones", 29), ["pen"])),
    ("Items: tea, sugar. Customer: Max Blum, age 33.", Order(Person("Max Blum", 33), ["tea", "sugar"])),
    ("Lea Roth, 34, buys soap, salt and rice.", Order(Person("Lea Roth", 34), ["soap", "salt", "rice"])),
    ("A lamp for Omar Said, who is 40.", Order(Person("Omar Said", 40), ["lamp"])),
    ("Eva Marsh is 23 and takes cheese and ham.", Order(Person("Eva Marsh", 23), ["cheese", "ham"])),
    ("Order of Jan Novak (61): nails, glue.", Order(Person("Jan Novak", 61), ["nails", "glue"])),
    ("Ben Ito, aged 17, asks for a ball.", Order(Person("Ben Ito", 17), ["ball"])),
    ("Rosa Klein, 91: wool, needles, thread.", Order(Person("Rosa Klein", 91), ["wool", "needles", "thread"])),
    ("Send paint and a brush to Ken Hall, 45 years old.", Order(Person("Ken Hall", 45), ["paint", "brush"])),
)
DATES = (
    ("The meeting is on 3 May 2024. Which date is that?", date(2024, 5, 3)),
    ("Due: 31 December 2025.", date(2025, 12, 31)),
    ("He was born on March 14, 1879.", date(1879, 3, 14)),
    ("Which date is New Year's Day of 2030?", date(2030, 1, 1)),
    ("The contract was signed on 2023-07-09.", date(2023, 7, 9)),
    ("Invoice of 12 March 2024.", date(2024, 3, 12)),
    ("On 20 July 1969 people walked on the moon.", date(1969, 7, 20)),
    ("The shop opens on the first of June 2026.", date(2026, 6, 1)),
    ("Delivery on 28/02/2025 (day, month, year).", date(2025, 2, 28)),
    ("Christmas Day of 2022.", date(2022, 12, 25)),
)
KINDS: tuple[tuple[Any, tuple[tuple[str, Any], ...]], ...] = (
    (int, INTEGERS), (float, FLOATS), (bool, FLAGS), (Team, TEAMS), (list[str], LISTS), (Person, PERSONS),
    (Ticket, TICKETS), (Trip, TRIPS), (Order, ORDERS), (date, DATES),
)  # fmt: skip
TYPED = tuple((question, type, right) for type, pairs in KINDS for question, right in pairs)
"""(question, type, the right value)."""

"""Tasks for a model that is offered tools: which call each of them wants, and those that want none.

Eight sets of one to eight tools, with and without a system text. An expected argument is a text (case does not count),
a pattern, a number, a list, an object whose named members are compared, or a tuple of alternatives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}


def words(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


def text(description: str) -> Json:
    return {"type": "string", "description": description}


def record(properties: Json, required: str) -> Json:
    return {"type": "object", "properties": properties, "required": required.split()}


def tool(name: str, description: str, properties: Json, required: str = "") -> Json:
    """A function as chat completions offer it; ``required`` are names with blanks between."""
    parameters = record(properties, required)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@dataclass(frozen=True, slots=True)
class Task:
    """A user's words, the tools that are offered, and the call that is right; no ``name``: an answer in text is."""

    ask: str
    tools: Sequence[Json]
    system: str | None = None
    name: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> list[Json]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.ask}]

    def wants(self, name: str, arguments: str) -> bool:
        """Whether the call is the right one: its name, arguments that its schema takes, and those that are expected."""
        if name != self.name:
            return False
        schema = next(tool["function"]["parameters"] for tool in self.tools if tool["function"]["name"] == name)
        try:
            given = json.loads(arguments)
        except ValueError:
            return False
        return jsonschema_rs.is_valid(schema, given) and fits(dict(self.arguments), given)


def fits(wanted: Any, given: Any) -> bool:
    """Whether a value is what was expected (see this module's first lines)."""
    match wanted:
        case tuple():
            return any(fits(one, given) for one in wanted)
        case re.Pattern():
            return isinstance(given, str) and wanted.search(given) is not None
        case bool():
            return given is wanted
        case int() | float():
            return isinstance(given, int | float) and not isinstance(given, bool) and given == wanted
        case str():
            return isinstance(given, str) and given.strip().casefold() == wanted.casefold()
        case list():
            return isinstance(given, list) and len(given) == len(wanted) and all(map(fits, wanted, given))
        case dict():
            return isinstance(given, dict) and all(name in given and fits(wanted[name], given[name]) for name in wanted)
    return False


def like(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


Row = tuple[str, str | None, Mapping[str, Any]]


def tasks_of(tools: Sequence[Json], system: str | None, *rows: Row) -> tuple[Task, ...]:
    return tuple(Task(ask, tools, system, name, arguments) for ask, name, arguments in rows)


def plain(ask: str) -> Row:
    """A question that no tool is for."""
    return ask, None, {}


CLOCK = tasks_of(
    [
        tool(
            "get_time",
            "Tells the current time in a time zone",
            {"timezone": text("IANA name, such as Europe/Rome")},
            "timezone",
        )
    ],
    None,
    ("What time is it in Europe/Berlin right now?", "get_time", {"timezone": "Europe/Berlin"}),
    ("Tell me the current time in Tokyo.", "get_time", {"timezone": "Asia/Tokyo"}),
    ("I have to call somebody in New York. How late is it there?", "get_time", {"timezone": "America/New_York"}),
    plain("How many minutes does an hour have?"),
)

HOUSE = tasks_of(
    [
        tool(
            "set_light",
            "Switches the light of a room",
            {
                "room": words("kitchen", "bedroom", "bathroom", "hall"),
                "on": FLAG,
                "brightness": {"type": "integer", "minimum": 0, "maximum": 100},
            },
            "room on",
        ),
        tool(
            "set_thermostat", "Sets the temperature of the heating, in degrees Celsius", {"celsius": NUMBER}, "celsius"
        ),
        tool(
            "lock_door",
            "Locks or unlocks a door",
            {"door": words("front", "back", "garage"), "locked": FLAG},
            "door locked",
        ),
    ],
    "You control a house. Be brief.",
    ("Turn on the light in the kitchen.", "set_light", {"room": "kitchen", "on": True}),
    ("Switch off the bedroom light, please.", "set_light", {"room": "bedroom", "on": False}),
    ("Set the light in the hall to 40 percent.", "set_light", {"room": "hall", "on": True, "brightness": 40}),
    ("Make it 21.5 degrees.", "set_thermostat", {"celsius": 21.5}),
    ("It is too cold. Set the heating to 23.", "set_thermostat", {"celsius": 23}),
    ("Lock the back door.", "lock_door", {"door": "back", "locked": True}),
    ("Unlock the garage, I am home.", "lock_door", {"door": "garage", "locked": False}),
    plain("Thank you, that is all for today!"),
    plain("Which is warmer, 20 degrees Celsius or 20 degrees Fahrenheit?"),
)

OFFICE = tasks_of(
    [
        tool(
            "send_email",
            "Sends an e-mail",
            {"to": text("e-mail address"), "subject": TEXT, "body": TEXT},
            "to subject body",
        ),
        tool("search_mail", "Searches the mailbox", {"query": TEXT, "unread_only": FLAG, "limit": WHOLE}, "query"),
        tool("find_contact", "Looks a person up in the address book", {"name": TEXT}, "name"),
        tool(
            "create_reminder",
            "Reminds the user of something",
            {"text": TEXT, "date": text("YYYY-MM-DD"), "time": text("HH:MM, 24 hours")},
            "text date",
        ),
    ],
    "You are a helpful assistant.",
    (
        "Write to bob@example.com with the subject 'Lunch' that I will be ten minutes late.",
        "send_email",
        {"to": "bob@example.com", "subject": "Lunch", "body": like("late|minutes")},
    ),
    (
        "Send an email to info@shop.example, subject Invoice, text: Please send me the invoice.",
        "send_email",
        {"to": "info@shop.example", "subject": "Invoice", "body": like("invoice")},
    ),
    ("Find all mails about the budget.", "search_mail", {"query": like("budget")}),
    (
        "Show me only the unread mails about Project Falcon.",
        "search_mail",
        {"query": like("falcon"), "unread_only": True},
    ),
    ("What is the phone number of Maria Keller?", "find_contact", {"name": like("maria keller")}),
    ("Remind me on 2027-03-14 to water the plants.", "create_reminder", {"text": like("water"), "date": "2027-03-14"}),
    (
        "Set a reminder for 2026-12-24 at 18:30: call grandma.",
        "create_reminder",
        {"text": like("grandma"), "date": "2026-12-24", "time": like("^18:30")},
    ),
    plain("What is a good first sentence for a letter of thanks?"),
    plain("What does the abbreviation FYI mean?"),
)

SHOP = tasks_of(
    [
        tool(
            "create_order",
            "Places an order",
            {
                "customer": record({"name": TEXT, "email": TEXT}, "name"),
                "items": {"type": "array", "items": record({"sku": TEXT, "quantity": WHOLE}, "sku quantity")},
                "express": FLAG,
            },
            "customer items",
        ),
        tool("track_order", "Tells where an order is", {"order_id": text("such as A-1234")}, "order_id"),
        tool(
            "cancel_order",
            "Cancels an order",
            {"order_id": TEXT, "reason": words("too_late", "wrong_item", "other")},
            "order_id",
        ),
    ],
    None,
    (
        "Order 3 pieces of SKU-77 for Anna Berg.",
        "create_order",
        {"customer": {"name": "Anna Berg"}, "items": [{"sku": "SKU-77", "quantity": 3}]},
    ),
    (
        "Place an order for Tom Lee (tom@lee.example): two of SKU-1 and five of SKU-2.",
        "create_order",
        {
            "customer": {"name": "Tom Lee", "email": "tom@lee.example"},
            "items": [{"sku": "SKU-1", "quantity": 2}, {"sku": "SKU-2", "quantity": 5}],
        },
    ),
    (
        "Express order, please: one SKU-9 for Eva Novak.",
        "create_order",
        {"customer": {"name": "Eva Novak"}, "items": [{"sku": "SKU-9", "quantity": 1}], "express": True},
    ),
    ("Where is my order A-5512?", "track_order", {"order_id": "A-5512"}),
    ("Can you check the status of order Z-0007?", "track_order", {"order_id": "Z-0007"}),
    ("Please cancel order A-1001, it comes too late.", "cancel_order", {"order_id": "A-1001", "reason": "too_late"}),
    ("Cancel B-2002. You sent the wrong item.", "cancel_order", {"order_id": "B-2002", "reason": "wrong_item"}),
    plain("Hello! Who are you?"),
    plain("What is the difference between a shop and a warehouse?"),
)

TRAVEL = tasks_of(
    [
        tool(
            "get_forecast",
            "Weather forecast of a city",
            {"city": TEXT, "days": WHOLE, "unit": words("celsius", "fahrenheit")},
            "city",
        ),
        tool(
            "search_flights",
            "Searches flights",
            {"origin": TEXT, "destination": TEXT, "date": text("YYYY-MM-DD"), "passengers": WHOLE},
            "origin destination date",
        ),
        tool(
            "book_hotel",
            "Books a hotel room",
            {"city": TEXT, "check_in": text("YYYY-MM-DD"), "nights": WHOLE, "stars": WHOLE},
            "city check_in nights",
        ),
        tool(
            "convert_currency",
            "Converts an amount of money",
            {"amount": NUMBER, "from": text("ISO 4217"), "to": text("ISO 4217")},
            "amount from to",
        ),
        tool("get_distance", "Distance between two places in kilometres", {"from": TEXT, "to": TEXT}, "from to"),
    ],
    "You are a travel assistant.",
    ("What will the weather be like in Lisbon?", "get_forecast", {"city": like("^lisbon")}),
    ("Give me the forecast for Oslo for the next 5 days.", "get_forecast", {"city": like("^oslo"), "days": 5}),
    (
        "How warm will it be in Chicago, in fahrenheit?",
        "get_forecast",
        {"city": like("^chicago"), "unit": "fahrenheit"},
    ),
    (
        "Find flights from Madrid to Vienna on 2027-05-02.",
        "search_flights",
        {"origin": like("madrid|mad"), "destination": like("vienna|vie"), "date": "2027-05-02"},
    ),
    (
        "I need a flight from Paris to Dublin for 3 people on 2026-12-20.",
        "search_flights",
        {"origin": like("paris|cdg"), "destination": like("dublin|dub"), "date": "2026-12-20", "passengers": 3},
    ),
    (
        "Book me a hotel in Prague from 2027-02-01 for 4 nights.",
        "book_hotel",
        {"city": like("^prague"), "check_in": "2027-02-01", "nights": 4},
    ),
    ("How much is 250 euros in US dollars?", "convert_currency", {"amount": 250, "from": "EUR", "to": "USD"}),
    ("Convert 99.5 GBP to JPY.", "convert_currency", {"amount": 99.5, "from": "GBP", "to": "JPY"}),
    ("How far is it from Hamburg to Munich?", "get_distance", {"from": like("^hamburg"), "to": like("^munich")}),
    plain("Which language do people speak in Portugal?"),
    plain("Say hello in Italian."),
)

FILES = tasks_of(
    [
        tool("list_directory", "Lists the files of a folder", {"path": TEXT}, "path"),
        tool("read_file", "Reads a text file", {"path": TEXT}, "path"),
        tool("write_file", "Writes a text file", {"path": TEXT, "content": TEXT}, "path content"),
        tool("delete_file", "Deletes a file", {"path": TEXT}, "path"),
        tool("move_file", "Moves or renames a file", {"source": TEXT, "target": TEXT}, "source target"),
        tool("make_directory", "Makes a folder", {"path": TEXT}, "path"),
        tool(
            "search_text", "Searches files for a text", {"text": TEXT, "path": TEXT, "ignore_case": FLAG}, "text path"
        ),
        tool("run_command", "Runs a shell command", {"command": TEXT}, "command"),
    ],
    None,
    ("What files are in src/app?", "list_directory", {"path": like("^(\\./)?src/app/?$")}),
    ("Open docs/intro.md and summarise it.", "read_file", {"path": "docs/intro.md"}),
    ("Show me the contents of /etc/hostname.", "read_file", {"path": "/etc/hostname"}),
    (
        "Create the file hello.txt with the content: good morning",
        "write_file",
        {"path": "hello.txt", "content": like("good morning")},
    ),
    ("Delete tmp/old.log.", "delete_file", {"path": "tmp/old.log"}),
    ("Rename report.txt to final.txt.", "move_file", {"source": "report.txt", "target": "final.txt"}),
    ("Make a folder called backup.", "make_directory", {"path": like("^(\\./)?backup/?$")}),
    ("Search for the text TODO in the folder src.", "search_text", {"text": "TODO", "path": like("^(\\./)?src/?$")}),
    ("Run the command git status.", "run_command", {"command": "git status"}),
    plain("What is the difference between a file and a folder?"),
    plain("What does the letter R stand for in README? Just guess."),
)

NUMBERS = tasks_of(
    [
        tool(
            "calculate", "Evaluates an arithmetic expression", {"expression": text("such as (2 + 3) * 4")}, "expression"
        ),
        tool(
            "query_table",
            "Reads rows of a database table",
            {
                "table": words("customers", "orders", "products"),
                "columns": {"type": "array", "items": TEXT, "minItems": 1},
                "where": record(
                    {"column": TEXT, "operator": words("=", "<", ">"), "value": {"type": ["string", "number"]}},
                    "column operator value",
                ),
                "limit": {"type": "integer", "minimum": 1},
            },
            "table columns",
        ),
    ],
    "You are a data analyst. Use the tools for every calculation.",
    ("How much is 8437 * 291?", "calculate", {"expression": like("8437\\s*\\*\\s*291")}),
    (
        "Compute (17.5 + 4.25) / 3.",
        "calculate",
        {"expression": like("\\(\\s*17\\.5\\s*\\+\\s*4\\.25\\s*\\)\\s*/\\s*3")},
    ),
    (
        "List the name and city of all customers.",
        "query_table",
        {"table": "customers", "columns": [like("name"), like("city")]},
    ),
    ("Show me the name of 10 products.", "query_table", {"table": "products", "columns": [like("name")], "limit": 10}),
    (
        "Give me the id of all orders whose total is above 500.",
        "query_table",
        {
            "table": "orders",
            "columns": [like("id$")],
            "where": {"column": "total", "operator": ">", "value": (500, "500")},
        },
    ),
    plain("In one sentence, what is a median?"),
    plain("Good morning!"),
)

MEDIA = tasks_of(
    [
        tool("play_song", "Plays a song", {"title": TEXT, "artist": TEXT}, "title"),
        tool("pause", "Pauses the music", {}),
        tool(
            "set_volume",
            "Sets the volume in percent",
            {"percent": {"type": "integer", "minimum": 0, "maximum": 100}},
            "percent",
        ),
        tool("add_to_playlist", "Adds a song to a playlist", {"playlist": TEXT, "song": TEXT}, "playlist song"),
        tool(
            "search_movies",
            "Searches movies",
            {"genre": words("comedy", "drama", "horror", "documentary"), "year_from": WHOLE, "max_results": WHOLE},
            "genre",
        ),
        tool(
            "translate",
            "Translates a text",
            {"text": TEXT, "target_language": text("its English name")},
            "text target_language",
        ),
    ],
    "You are a helpful assistant. Use a tool when it helps.",
    ("Play Yesterday by The Beatles.", "play_song", {"title": "Yesterday", "artist": like("beatles")}),
    ("Play the song Imagine.", "play_song", {"title": "Imagine"}),
    ("Pause the music.", "pause", {}),
    ("Set the volume to 35 percent.", "set_volume", {"percent": 35}),
    (
        "Add Bohemian Rhapsody to my playlist Road Trip.",
        "add_to_playlist",
        {"playlist": "Road Trip", "song": like("bohemian rhapsody")},
    ),
    ("Find comedy movies made since 2015.", "search_movies", {"genre": "comedy", "year_from": 2015}),
    ("Show me 5 documentary films.", "search_movies", {"genre": "documentary", "max_results": 5}),
    (
        "Translate 'Where is the station?' into Spanish.",
        "translate",
        {"text": like("where is the station"), "target_language": like("^spanish")},
    ),
    plain("Who wrote the play Romeo and Juliet?"),
    plain("Tell me a short joke."),
)

TASKS = (*CLOCK, *HOUSE, *OFFICE, *SHOP, *TRAVEL, *FILES, *NUMBERS, *MEDIA)
CALLS = tuple(task for task in TASKS if task.name)
PLAIN = tuple(task for task in TASKS if task.name is None)


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's words in a loop; the call that they want, what it gives, and what the answer must then hold."""

    ask: str
    holds: re.Pattern[str]
    name: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """A conversation of three turns over the tools of one set."""

    tools: Sequence[Json]
    system: str | None
    turns: tuple[Turn, ...]


LOOPS = (
    Loop(
        TRAVEL[0].tools,
        TRAVEL[0].system,
        (
            Turn(
                "What is the weather in Oslo?",
                like("-3|minus 3|snow"),
                "get_forecast",
                {"city": like("^oslo")},
                '{"celsius": -3, "sky": "snow"}',
            ),
            Turn(
                "And in Cairo?",
                like("31|sun"),
                "get_forecast",
                {"city": like("^cairo")},
                '{"celsius": 31, "sky": "sunny"}',
            ),
            Turn("Which of the two cities is colder?", like("oslo")),
        ),
    ),
    Loop(
        FILES[0].tools,
        FILES[0].system,
        (
            Turn(
                "Which files are in the folder notes?",
                like("plan\\.txt"),
                "list_directory",
                {"path": like("notes")},
                "plan.txt\nold.txt",
            ),
            Turn(
                "Read notes/plan.txt.",
                like("paint|fence"),
                "read_file",
                {"path": "notes/plan.txt"},
                "Paint the fence on Friday.",
            ),
            Turn("On which day is that planned?", like("friday")),
        ),
    ),
    Loop(
        SHOP[0].tools,
        SHOP[0].system,
        (
            Turn(
                "Where is order A-5512?",
                like("hamburg"),
                "track_order",
                {"order_id": "A-5512"},
                '{"status": "in transit", "place": "Hamburg"}',
            ),
            Turn(
                "That is the wrong item anyway. Cancel it.",
                like("cancel"),
                "cancel_order",
                {"order_id": "A-5512"},
                '{"status": "cancelled", "refund": 49.9}',
            ),
            Turn("How much money do I get back?", like("49[.,]9")),
        ),
    ),
    Loop(
        OFFICE[0].tools,
        OFFICE[0].system,
        (
            Turn(
                "Look up Maria Keller.",
                like("maria@keller"),
                "find_contact",
                {"name": like("maria keller")},
                '{"email": "maria@keller.example", "phone": "555-0199"}',
            ),
            Turn(
                "Remind me to call her on 2027-01-08.",
                like("remind|set|2027|january|8"),
                "create_reminder",
                {"text": like("maria|keller|call"), "date": "2027-01-08"},
                '{"id": 12, "ok": true}',
            ),
            Turn("What was her phone number again?", like("555-?0199")),
        ),
    ),
    Loop(
        HOUSE[0].tools,
        HOUSE[0].system,
        (
            Turn("Set the heating to 22 degrees.", like("22"), "set_thermostat", {"celsius": 22}, '{"celsius": 22}'),
            Turn(
                "Lock the front door.",
                like("lock"),
                "lock_door",
                {"door": "front", "locked": True},
                '{"door": "front", "locked": true}',
            ),
            Turn("To how many degrees did you set the heating?", like("22")),
        ),
    ),
    Loop(
        NUMBERS[0].tools,
        NUMBERS[0].system,
        (
            Turn(
                "How much is 8437 * 291?",
                like("2[,. ]?455[,. ]?167"),
                "calculate",
                {"expression": like("8437\\s*\\*\\s*291")},
                "2455167",
            ),
            Turn("And 12.5 / 4?", like("3\\.125"), "calculate", {"expression": like("12\\.5\\s*/\\s*4")}, "3.125"),
            Turn("Which of the two results is larger?", like("2[,. ]?455[,. ]?167|first|8437")),
        ),
    ),
)

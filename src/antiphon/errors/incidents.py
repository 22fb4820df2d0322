"""The codes of what parsers repair: a part of the table of `antiphon.errors.codes`."""

from __future__ import annotations

from dataclasses import dataclass

from . import AntiphonError

# What the table of codes says of each.


@dataclass(frozen=True, slots=True)
class Code:
    """``meaning`` is one sentence. ``status``: the HTTP status of ``errors``, the classes that are raised with it.

    ``incident``: a parser reports it beside the messages and reads on. ``tool``: a call of a tool failed so; the model
    reads it in the tool's message. One code can be all three. None of them: the API stores it with a failed response.
    """

    meaning: str
    status: int | None = None
    errors: tuple[type[AntiphonError], ...] = ()
    incident: bool = False
    tool: bool = False


def incident(meaning: str) -> Code:
    """A code that only parsers report."""
    return Code(meaning, incident=True)


INCIDENTS = {
    "after_end": incident("Text follows the end of the reply; it is set aside."),
    "cut_mark": incident("A limit ends the reply inside a mark of its format; what there is of it is set aside."),
    "unexpected_control": incident("A control token occurs where it means nothing; it is set aside."),
    "unexpected_tag": incident("A tag of the template occurs where it means nothing; it is set aside."),
    "malformed_call": incident(
        "The text between the tags of a call is no call, and stays text; what stands behind a call there is set aside."
    ),
    "malformed_arguments": incident("The arguments of a call are no JSON object; they stand as the model wrote them."),
    "malformed_argument": incident(
        "What stands where an argument should is none; it stays there as the model wrote it."
    ),
    "duplicate_argument": incident("An argument is there twice; both are given."),
    "unclosed_argument": incident(
        "An argument's value was not closed; it ends where the next part of the call begins."
    ),
    "call_not_allowed": incident("The model called where no call was allowed; the call is read as text."),
    "call_in_other_form": incident("The model called in another form than the one that it was trained on."),
    "call_repeated": incident("The model made a call again, with the same arguments, whose result it had just read."),
    "further_call_unsure": incident(
        "Calls were required, and the model would not have made another one; the reply ends before it."
    ),
    "schema_violation": incident("A finished value does not fit its schema, which was not strict."),
    "tool_rounds_exceeded": incident("The model still called after as many rounds as the server runs tools in."),
    "history_arguments": incident(
        "The template takes an earlier call's arguments as an object alone; they stand there as the model wrote them."
    ),
    "history_arguments_as_text": incident(
        "The template has no place for an earlier call's arguments; they stand in the text before it."
    ),
    "history_calls_as_text": incident("The template cannot write earlier calls; they and their results are texts."),
    "history_empty": incident("The template cannot write an earlier reply without text or call; it is left out."),
    "history_results_as_text": incident("The template takes results of calls alone; others are the user's text."),
    "history_joined": incident("The template wants roles in turn; texts of one role that follow each other are one."),
    "history_filled": incident("The template wants roles in turn; an empty text stands where one would be missing."),
    "history_names": incident("An earlier call's name is no word, which a head would be; it is respelled."),
    "history_left_out": incident(
        "The prompt was too long; the oldest turns, or calls with their results, are left out, as the request allows."
    ),
    "textual-specials": incident("Harmony as text: the reply spells control tokens, which are read as such."),
    "missing-controls": incident("Harmony as text: the reply has lost its control tokens, which are put back."),
    "channel-undecided": incident("Which channel a text is on is not known yet; it is buffered until that is said."),
    "channel-hidden": incident("A text is on a channel that there is not; it is reasoning, and nobody is shown it."),
    "channel-inferred": incident("Nothing in the reply says which channel a text is on; it is read as on this one."),
    "unknown-id": incident("The vocabulary has no token of this id; it is left out."),
    "endoftext": incident("`<|endoftext|>` ended the reply in place of `<|return|>` or `<|call|>`."),
    "stray-stop": incident("A control that ends a message occurs outside of every message; skipped."),
    "stray-control": incident("A control token occurs where it has no meaning; skipped."),
    "stray-message": incident("`<|message|>` occurs inside a message; skipped."),
    "stray-text": incident("Text occurs outside of every message; set aside."),
    "stray-whitespace": incident("Blanks occur outside of every message; set aside."),
    "dup-start": incident("`<|start|>` follows `<|start|>`; the first is skipped."),
    "dup-message": incident("`<|message|>` follows `<|message|>`; the second is skipped."),
    "dup-role": incident("A header has its role twice."),
    "dup-channel": incident("A header has two channels; the first counts."),
    "dup-recipient": incident("A header has two recipients; the first counts."),
    "dup-constrain": incident("A header has two content types; the first counts."),
    "missing-start": incident("A message begins without `<|start|>`."),
    "missing-end": incident("A message ends without its control; the next one begins."),
    "missing-message": incident("A header ends without `<|message|>`; what is no field of it is the content."),
    "missing-channel-token": incident("A header names its channel without `<|channel|>`."),
    "missing-to": incident("A header names its recipient without `to=`."),
    "empty-call": incident("A call without `<|message|>` has no arguments."),
    "empty-channel": incident("`<|channel|>` is followed by nothing that names a channel."),
    "empty-recipient": incident("`to=` is followed by no name."),
    "role-repaired": incident("A header's role is misspelled or joined to its next word; the likely one is taken."),
    "role-as-recipient": incident("A tool's name is where the role belongs; it is the recipient."),
    "channel-repaired": incident("A channel is misspelled; the likely one is taken."),
    "unknown-channel": incident("A header names a channel that Harmony does not have; it stays as it is."),
    "recipient-repaired": incident("A recipient is misspelled or incomplete; the tool that it means is taken."),
    "recipient-inferred": incident("Code without a recipient is a call of python."),
    "call-without-recipient": incident("`<|call|>` ends a message that names no recipient."),
    "bare-content-type": incident("A message that is no call has a content type."),
    "unknown-content-type": incident("A header names a content type that Harmony does not have."),
    "header-noise": incident("Words of a header are no field; they are set aside."),
    "truncated-header": incident("The reply ends inside a header that says nothing yet; it is set aside."),
    "truncated-at-foreign-role": incident("The reply goes on as somebody else; from there on it is set aside."),
    "unmarked-final": incident("A text outside of every message is the answer, as there is no other."),
}
"""Faults that parsers repair in replies of models (`Incident`), and that formats repair in histories."""

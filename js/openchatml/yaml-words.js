// What is wrong with YAML, in words that say what to mend.

const WORDS = [
  ["expected ',' or ']'", "a list in [ ] is not closed, or a comma lacks in it", "Write [a, b]; quote words with [ ] { } , : # in them."],
  ["expected ',' or '}'", "a mapping in { } is not closed, or a comma lacks in it", "Write {key: value, other: value}."],
  ["could not find expected ':'", "a key has no colon behind it", "Write key: value, one to a line."],
  ["mapping values are not allowed", "there is a second colon in a value, or a key is indented too far", 'Quote a value that has ": " in it.'],
  ["cannot start any token", "a value begins with a character that YAML reserves, or with a tab", "Quote the value; indent with spaces, not tabs."],
  ["tab character", "a tab stands where the indentation needs spaces", "Indent with spaces."],
  ["unexpected end of stream", "a quotation mark is not closed", 'Close it with the same mark: "…".'],
  ["unexpected document indicator", "a quotation mark is not closed", 'Close it with the same mark: "…".'],
  ["unknown escape character", "there is an unknown escape behind a backslash", String.raw`In "…" a backslash is written \\; in '…' it is itself.`],
  ["hexdecimal number", "an escape behind a backslash is not finished", String.raw`In "…" a backslash is written \\.`],
  ["did not find expected key", "a line does not fit the indentation of those above it", "Keys of one mapping begin in one column."],
  ["'-' indicator", "a line does not fit the list above it", "The items of one list begin in one column, each with a dash."],
  ["block sequence entries", "a list begins where no list may stand", "A list begins on the line below its key."],
  ["<document start>", "the header goes on where YAML ends", "A header is one mapping: key: value, one to a line."],
  ["expected a single document", "the header has two YAML documents", "Only one --- opens the header, and one closes it."],
  ["node content", "a value lacks", "Write a value behind the colon, the dash or the comma."],
  ["alphabetic or numeric", "an anchor or an alias has no name", "Quote a value that begins with & or *."],
  ["directive", "a line begins with %, which YAML reserves", "Quote a value that begins with %."],
  ["block scalar", "a text block (| or >) is malformed", "Its lines are indented by spaces, deeper than its key."],
  ["simple key", "a key is too long, or not on one line", "Write key: value, one to a line."],
]; // prettier-ignore

/** The message and the hint for a `YamlError`. */
export function yamlWords(error) {
  const known = WORDS.find(([part]) => error.message.includes(part));
  return known ? { message: known[1], hint: known[2] } : { message: error.message, hint: null };
}

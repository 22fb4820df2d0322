// What a JSON Schema (2020-12) says of a call's arguments, without what depends on patterns, which might run on.

const DEEPEST = 64;
const DEEPEST_CHECK = 256;
const MOST_STEPS = 200_000;

/** A schema that is none, or that says what is not checked here. */
export class SchemaError extends Error {}

const kindOf = (value) => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
const isOf = (type, value) => (type === "integer" ? Number.isInteger(value) : kindOf(value) === type);
const lengthOf = (text) => [...text].length;

// What a keyword requires of the values that it is about: true, false, or parts: a value, its schema, its path.

const OF_ALL = {
  __proto__: null,
  type: (value, of) => [of].flat().some((type) => isOf(type, value)),
  const: (value, of, { equal }) => equal(value, of),
  enum: (value, of, { equal }) => of.some((one) => equal(value, one)),
  allOf: (value, of) => of.map((schema) => [value, schema, ""]),
  anyOf: (value, of, { fits }) => of.some((schema) => fits(value, schema)),
  oneOf: (value, of, { fits }) => of.filter((schema) => fits(value, schema)).length === 1,
  not: (value, of, { fits }) => !fits(value, of),
  if: (value, of, { fits, schema }) =>
    !MET.if(schema) || [[value, schema[fits(value, of) ? "then" : "else"] ?? true, ""]],
  $ref: (value, of, { root }) => [[value, referred(of, root), ""]],
};
const OF_KIND = {
  null: {},
  boolean: {},
  number: {
    __proto__: null,
    minimum: (value, of) => value >= of,
    maximum: (value, of) => value <= of,
    exclusiveMinimum: (value, of) => value > of,
    exclusiveMaximum: (value, of) => value < of,
    multipleOf(value, of) {
      const times = value / of;
      return Math.abs(times - Math.round(times)) <= Number.EPSILON * Math.abs(times);
    },
  },
  string: {
    __proto__: null,
    minLength: (value, of) => lengthOf(value) >= of,
    maxLength: (value, of) => lengthOf(value) <= of,
  },
  array: {
    __proto__: null,
    minItems: (value, of) => value.length >= of,
    maxItems: (value, of) => value.length <= of,
    uniqueItems: (value, of, { equal }) =>
      !of || value.every((one, i) => !value.slice(i + 1).some((other) => equal(one, other))),
    prefixItems: (value, of) => value.slice(0, of.length).map((item, i) => [item, of[i], `[${i}]`]),
    items(value, of, { schema: { prefixItems = [] } }) {
      return value.map((item, i) => [item, of, `[${i}]`]).slice(prefixItems.length);
    },
    contains(value, of, { fits, schema: { minContains = 1, maxContains = Infinity } }) {
      const found = value.filter((item) => fits(item, of)).length;
      return minContains <= found && found <= maxContains;
    },
  },
  object: {
    __proto__: null,
    minProperties: (value, of) => Object.keys(value).length >= of,
    maxProperties: (value, of) => Object.keys(value).length <= of,
    required: (value, of) => of.every((name) => Object.hasOwn(value, name)),
    properties: (value, of) => present(value, of).map(([name, schema]) => [value[name], schema, `.${name}`]),
    additionalProperties: (value, of, { schema: { properties = {} } }) =>
      Object.keys(value).flatMap((name) => (Object.hasOwn(properties, name) ? [] : [[value[name], of, `.${name}`]])),
    propertyNames: (value, of) => Object.keys(value).map((name) => [name, of, ""]),
    dependentRequired: (value, of) =>
      present(value, of).every(([, names]) => names.every((name) => Object.hasOwn(value, name))),
    dependentSchemas: (value, of) => present(value, of).map(([, schema]) => [value, schema, ""]),
  },
};

const present = (value, of) => Object.entries(of).filter(([name]) => Object.hasOwn(value, name));

function referred(pointer, root) {
  const [first, ...steps] = decodeURIComponent(pointer || "#").split("/");
  const found = steps.reduce((node, step) => {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    return node instanceof Object && Object.hasOwn(node, name) ? node[name] : undefined;
  }, root);
  if (first !== "#" || found === undefined) throw new SchemaError(`${pointer} is not in it`);
  return found;
}

// What the value of a keyword is in a schema that is one.

const isText = (value) => typeof value === "string";
const isNumber = (value) => typeof value === "number";
const isBoolean = (value) => typeof value === "boolean";
const isObject = (value) => kindOf(value) === "object";
/** Whether it may be a schema. */
export const isSchema = (value) => isObject(value) || isBoolean(value);
const isCount = (value) => Number.isInteger(value) && value >= 0;
const isWords = (value) => Array.isArray(value) && value.every(isText) && new Set(value).size === value.length;
const isSchemas = (value) => Array.isArray(value) && value.length > 0;
const TYPES = ["null", "boolean", "object", "array", "number", "string", "integer"];
const isTypes = (value) =>
  (isText(value) || (isWords(value) && value.length > 0)) && [value].flat().every((type) => TYPES.includes(type));

const forms = (is, words) => words.split(" ").map((word) => [word, is]);
const FORMS = new Map([
  ...forms(isTypes, "type"),
  ...forms(Array.isArray, "enum examples"),
  ...forms(isWords, "required"),
  ...forms(isNumber, "minimum maximum exclusiveMinimum exclusiveMaximum"),
  ...forms((value) => value > 0, "multipleOf"),
  ...forms(isCount, "minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties"),
  ...forms(isBoolean, "uniqueItems deprecated readOnly writeOnly"),
  ...forms(isText, "title description format $comment $ref contentEncoding contentMediaType"),
  ...forms((value) => isObject(value) && Object.values(value).every(isWords), "dependentRequired"),
  ...forms((value) => /^https:\/\/json-schema.org\/draft\/2020-12\/schema#?$/.test(value), "$schema"),
  ...forms(isSchemas, "allOf anyOf oneOf prefixItems"),
  ...forms(isObject, "properties dependentSchemas $defs definitions"),
]);
const SCHEMA_IN = new Set("additionalProperties propertyNames items contains not if then else contentSchema".split(" "));
const SCHEMAS_IN = new Set("allOf anyOf oneOf prefixItems properties dependentSchemas $defs definitions".split(" "));
const UNREAD = new Set(
  "pattern patternProperties unevaluatedItems unevaluatedProperties dependencies $id $anchor $dynamicRef".split(" "),
);

/** Which values of keywords only say something where others stand beside them, or refer to them. */
const MET = {
  __proto__: null,
  $defs: () => false,
  definitions: () => false,
  contentSchema: () => false,
  if: (schema) => Object.hasOwn(schema, "then") || Object.hasOwn(schema, "else"),
  then: (schema) => Object.hasOwn(schema, "if"),
  else: (schema) => Object.hasOwn(schema, "if"),
};

/** A schema that values are checked by. */
export class Schema {
  constructor(root) {
    this.root = root;
    this.seen = { true: new Set(), false: new Set() };
    this.fault = null;
    try {
      checkJson(root);
      this.check(root);
    } catch (error) {
      if (!(error instanceof SchemaError || error instanceof URIError)) throw error;
      this.fault = error;
    }
  }

  /** What is wrong with a value, and where in it; null where nothing is. Throws `SchemaError` where nobody can say. */
  problem(value, path) {
    if (this.fault) throw new SchemaError(this.fault.message);
    this.steps = 0;
    return this.wrong(value, this.root, path, []);
  }

  /** Throws where it is no schema, or refers to none; what says nothing may, within the same document. */
  check(schema, isUsed = true) {
    if (this.seen[isUsed].has(schema)) return;
    if (!isSchema(schema)) throw new SchemaError(`${JSON.stringify(schema)} is no schema`);
    for (const [keyword, of] of Object.entries(schema)) {
      if (UNREAD.has(keyword)) throw new SchemaError(`${keyword} is not checked here`);
      if (FORMS.get(keyword)?.(of) === false) throw new SchemaError(`its ${keyword} is ${JSON.stringify(of)}`);
    }
    this.seen[isUsed].add(schema);
    for (const [keyword, of] of Object.entries(schema)) {
      const isMet = isUsed && (MET[keyword]?.(schema) ?? true);
      if (keyword === "$ref" && /^[^#]/.test(of)) throw new SchemaError(`${of} is another document`);
      if (keyword === "$ref" && isUsed) this.check(referred(of, this.root));
      if (SCHEMA_IN.has(keyword)) this.check(of, isMet);
      if (SCHEMAS_IN.has(keyword)) for (const one of Object.values(of)) this.check(one, isMet);
    }
  }

  /** `around`: the values that are being checked and their schemas, of which one that refers to itself says no more. */
  wrong(value, schema, path, around) {
    this.step();
    if (around.length > DEEPEST_CHECK) throw new SchemaError("what it describes is nested too deeply");
    if (isBoolean(schema)) return schema ? null : `${path} is not allowed`;
    if (around.some(([one, by]) => one === value && by === schema)) return null;
    const within = [...around, [value, schema]];
    const fits = (one, by) => this.wrong(one, by, "", within) === null;
    const context = { schema, root: this.root, fits, equal: this.equal };
    for (const [keyword, of] of Object.entries(schema)) {
      const found = (OF_ALL[keyword] ?? OF_KIND[kindOf(value)][keyword])?.(value, of, context) ?? true;
      if (found === false) return `${path} is not what its ${keyword} says, ${JSON.stringify(of)}`;
      for (const [part, by, step] of found === true ? [] : found) {
        const problem = this.wrong(part, by, path + step, within);
        if (problem !== null) return problem;
      }
    }
    return null;
  }

  step() {
    this.steps += 1;
    if (this.steps > MOST_STEPS) throw new SchemaError("it takes too long to check");
  }

  equal = (one, other) => {
    this.step();
    if (!(one instanceof Object && other instanceof Object)) return one === other;
    const names = Object.keys(one);
    if (kindOf(one) !== kindOf(other) || names.length !== Object.keys(other).length) return false;
    return names.every((name) => Object.hasOwn(other, name) && this.equal(one[name], other[name]));
  };
}

function checkJson(value, depth = 0) {
  if (depth > DEEPEST) throw new SchemaError(`it is nested more than ${DEEPEST} deep`);
  if (isText(value) && !value.isWellFormed()) throw new SchemaError("it has a lone surrogate");
  if (isNumber(value) && !Number.isFinite(value)) throw new SchemaError("a number in it is out of range");
  if (!(value instanceof Object)) return;
  for (const [name, inner] of Object.entries(value)) {
    checkJson(name);
    checkJson(inner, depth + 1);
  }
}

/** The types of openchatml: what a transcript reads as, and what is wrong with it. */

export type Role = "system" | "developer" | "user" | "assistant" | "tool";
export type Channel = "analysis" | "commentary" | "final";
export type Intent = "preamble" | "status" | "debug";
export type End = "end" | "call" | "return";
export type Code =
  | "E-PARSE-HEADER"
  | "E-PARSE-CHANNEL-MISSING"
  | "E-BODY-CONSTRAINT-VIOLATION"
  | "E-CALL-SCHEMA"
  | "E-STREAM-TRUNCATED"
  | "E-PERM-VISIBILITY";

/** A word that is known, or another one, which the best reading of a wrong text preserves. */
type Word<Known extends string> = Known | (string & {});

/** What a header, arguments and other plain data are. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Header {
  /** Major, a dot, minor, as it is spelled. */
  version: string;
  [key: string]: Json;
}

/** One frame as it was read. */
export interface Frame {
  role: Role;
  /** The first word of the head: the role, or a tool by its own name. */
  author: string;
  to: string | null;
  /** The id in effect; `writtenId` is null where a reader made it up. */
  call_id: string | null;
  writtenId: string | null;
  /** Of a tool's reply the tool. */
  name: string | null;
  intent: Word<Intent> | null;
  /** `final` where none is written; `hasChannel` says whether one is. */
  channel: Word<Channel>;
  hasChannel: boolean;
  /** The type in effect: that behind `<|constrain|>`, else the attribute's. */
  content_type: string | null;
  constrain: string | null;
  body: string;
  /** null: the text ends within the frame. */
  end: End | null;
}

/** What is wrong, and where: lines and columns count characters from 1, the offset is one of JavaScript's strings. */
export interface Finding {
  code: Code;
  message: string;
  hint: string | null;
  offset: number;
  line: number;
  column: number;
}

export interface Transcript {
  valid: boolean;
  errors: Finding[];
  warnings: Finding[];
  header: Header | null;
  frames: Frame[];
}

export interface ReadOptions {
  /** A transcript without a header is none of the errors. */
  fragment?: boolean;
  /** The rules of HIP-1, whatever the header says. */
  harmony?: boolean;
}

/** Reads a transcript; where it is not valid, `frames` has the best reading. */
export function read(transcript: string | Uint8Array | readonly string[], options?: ReadOptions): Transcript;

/**
 * What is wrong with a transcript, errors and warnings in the text's order. Calls are checked against the tools that
 * messages declare: `E-CALL-SCHEMA` at the body.
 */
export function validate(
  transcript: string | Uint8Array | readonly string[],
  options?: ReadOptions,
): (Finding & { warning?: true })[];

/** A frame to write: as `read` gives it, or with the keys that it needs. */
export type WritableFrame = { role: Role } & Partial<
  Pick<Frame, "to" | "call_id" | "writtenId" | "name" | "content_type" | "constrain" | "body" | "end" | "hasChannel">
> & { channel?: Word<Channel> | null; intent?: Word<Intent> | null };

/** A transcript in canonical form. Throws `TypeError` for what no valid transcript can say. */
export function write(transcript: { header?: Header; frames?: readonly WritableFrame[] }): string;
export function writeHeader(header: Header): string;
export function writeFrame(frame: WritableFrame): string;

export interface Hidden {
  code: "E-PERM-VISIBILITY";
}

/** Whether an end user may see a frame. */
export function isShown(frame: Frame): boolean;
/** A frame's text for an end user, or the error of who asks for more. */
export function shown(frame: Frame): string | Hidden;

export interface Projection {
  role: Role;
  channel: Word<Channel>;
  content: string | null;
  tool_call?: { id: string | null; recipient: string | null; content_type: string | null; arguments: string };
  thinking?: string;
  intent?: Word<Intent>;
  ocm?: { [key: string]: Json };
}

/** One frame as an object of the JSON projection. */
export function project(frame: Frame): Projection;
/** The numbers of the frames that the next prompt has. */
export function resumed(frames: readonly Frame[]): number[];
/** The frames as HIP-1 has them in Harmony. */
export function harmony(frames: readonly Frame[]): (Omit<Frame, "channel"> & { channel: Word<Channel> | null })[];

export interface Call {
  call_id: string | null;
  to: string;
  /** A function's as an object, without its deadline; a text where they are none, and of other tools. */
  arguments: { [key: string]: Json } | string;
  deadline_ms: number | null;
  /** The number of the frame that answers; null while none does. */
  reply: number | null;
}

/** What a router does with each call. */
export function calls(frames: readonly Frame[]): Call[];

export type StreamEvent = { message_id: string; seq: number } & (
  | { type: "response.delta"; channel: Word<Channel>; delta: string }
  | { type: "response.delta.flush" }
  | { type: "response.done"; end_reason: "call" | "return" }
  | { type: "response.cancel"; reason: string }
  | { type: "tool.cancel"; call_id: string; reason: string }
  | { type: "error"; code: Code }
);

/** A model's reply, what follows `<|start|>assistant`, as events for the user interface; it may come cut anywhere. */
export class Reply {
  constructor(id?: string);
  readonly frames: Frame[];
  /** What ended the turn; null before its end. */
  readonly ended: "call" | "return" | null;
  feed(text: string): StreamEvent[];
  /** The end of the reply; one without `<|return|>` or `<|call|>` is incomplete. */
  close(): StreamEvent[];
  cancel(): StreamEvent[];
  cancelCall(call_id: string, reason: string): StreamEvent[];
}

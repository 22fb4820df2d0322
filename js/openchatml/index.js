// Reads, checks, streams and writes OpenChatML 2.2.

export { read, validate } from "./reader.js";
export { Reply } from "./reply.js";
export { calls, harmony, isShown, project, resumed, shown } from "./views.js";
export { write, writeFrame, writeHeader } from "./writer.js";

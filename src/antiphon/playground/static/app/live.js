// What a server makes of something that is typed: asked when the typing pauses, and only the last answer counts.
import { useEffect, useRef, useState } from "./ui.js";
import { call } from "./api.js";
export { useKept } from "./kept.js";

const PAUSE = 250;

// `body` null asks nothing; another `again` asks anew; with `pause` 0, for what changes all the time, states are asked for
// one after the other, and each is shown. Gives {found, problem, busy}; `found` stays until the next answer comes.
export function useLive(path, body, again, pause = PAUSE) {
  const [state, setState] = useState({ found: null, problem: null, busy: false });
  const retry = useRef(0);
  const flight = useRef(null);
  const spelled = body === null ? null : JSON.stringify(body);
  useEffect(() => {
    if (spelled === null) {
      setState({ found: null, problem: null, busy: false });
      return undefined;
    }
    const abort = new AbortController();
    setState((former) => ({ ...former, busy: true }));
    const ask = async () => {
      await flight.current;
      if (!abort.signal.aborted) flight.current = look();
    };
    const look = async () => {
      try {
        const found = await call(path, { body: JSON.parse(spelled), signal: pause ? abort.signal : undefined, aside: true });
        if (!pause || !abort.signal.aborted) setState({ found, problem: null, busy: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState({ found: null, problem: error, busy: false });
        if (error.retryAfter) retry.current = setTimeout(ask, error.retryAfter * 1000);
      }
    };
    const timer = setTimeout(ask, pause);
    return () => { clearTimeout(timer); clearTimeout(retry.current); abort.abort(); };
  }, [path, spelled, again]);
  return state;
}

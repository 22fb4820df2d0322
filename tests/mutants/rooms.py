"""Where mutants are made, and which tests are to find them: the most relevant ones, quick ones first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = "src/antiphon"


@dataclass(frozen=True, slots=True)
class Room:
    """``tests`` by pattern of files below `SOURCE`; of several patterns that fit a file the first counts."""

    name: str
    tests: Mapping[str, str]

    def files(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(path, tests) of each file of the room, paths below the repository's root."""
        seen: set[Path] = set()
        for pattern, tests in self.tests.items():
            for path in sorted((ROOT / SOURCE).glob(pattern)):
                if path not in seen and path.name != "__init__.py":
                    seen.add(path)
                    yield str(path.relative_to(ROOT)), tuple(f"tests/{test}" for test in tests.split())


ROOMS = (
    Room(
        "gate",
        {
            "http/gate/rates.py": "api/test_rates.py api/test_metrics.py api/test_several_servers.py",
            "http/gate/access.py": "api/test_keys.py api/test_metrics.py api/test_rates.py api/test_browser_gate.py",
            "http/gate/browsers.py": "api/test_browser_gate.py api/test_responses_socket.py",
            "http/gate/keys.py": "api/test_keys.py cli/test_keys.py cli/test_reload.py",
            "http/gate/admission.py": "tenancy api/test_admission.py api/test_hanging_up.py api/test_batches_beside.py",
            "http/gate/large.py": "api/test_large.py api/test_large_memory.py",
            "http/gate/idempotency.py": "api/test_idempotency.py api/test_keys.py api/test_responses_life.py",
        },
    ),
    Room(
        "store",
        {
            "store/files.py": "store/test_files.py api/test_files.py",
            "store/rows.py": "store/test_contract.py store/test_damage.py",
            "store/clock.py": "store/test_clock.py store/test_sessions.py",
            "store/codec.py": "store/test_sessions.py store/test_damage.py store/test_turns.py "
            "generation/test_sampled_history.py",
            "store/faults.py": "store/test_fault_codes.py store/test_damage.py api/test_faults.py cli/test_faults.py",
            "store/key_file.py": "api/test_encrypted_reasoning.py cli/test_serve_sessions.py",
            "store/leases.py": "store/test_leases.py",
            "store/memory.py": "store/test_leases.py store/test_contract.py store/test_sessions.py api/test_faults.py",
            "store/opening.py": "catalog/test_stores.py cli/test_serve_sessions.py",
            "store/postgres*.py": "store/test_postgres.py store/test_contract.py",
            "store/sessions.py": "store/test_sessions.py store/test_clock.py api/test_interactive.py "
            "api/test_sessions.py store/test_turns.py api/test_unfinished_turns.py",
            "store/store.py": "store/test_contract.py store/test_sessions.py",
            "store/transfer.py": "cli/test_store.py",
            "store/sqlite_file.py": "store/test_together.py store/test_file.py store/test_contract.py "
            "store/test_sessions.py "
            "store/test_damage.py",
            "store/*.py": "store/test_contract.py store/test_sessions.py store/test_file.py store/test_clock.py "
            "store/test_damage.py api/test_faults.py",
        },
    ),
    Room(
        "http",
        {
            "http/server/socket.py": "api/test_socket_hostile.py api/test_responses_socket.py",
            "http/server/connection.py": "api/test_slow_clients.py api/test_socket_hostile.py api/test_framing.py "
            "api/test_uvicorn.py",
            "http/server/handed.py": "workers/test_handed.py cli/test_workers.py",
            "http/server/watchdog.py": "api/test_watchdog.py",
            "http/server/*.py": "api/test_framing.py api/test_slow_clients.py api/test_uvicorn.py "
            "api/test_watchdog.py api/test_tls.py",
            "api/responses/request.py": "api/test_client_mcp_servers.py api/test_responses_client_mcp.py "
            "api/test_streams_survive.py",
            "http/origins.py": "api/test_browser_gate.py api/test_keys.py api/test_hosts.py",
            "http/route.py": "api/test_protocol_edges.py api/test_keys.py",
            "http/errors.py": "api/test_error_shapes.py api/test_bad_input.py api/test_messages.py "
            "api/test_ollama.py api/databricks api/test_faults.py api/test_heads.py api/test_keys.py",
            "http/journal.py": "api/test_journal.py api/test_streams_resumed.py api/test_streams_survive.py",
            "http/post.py": "api/test_messages_routes.py api/test_chat.py api/test_bad_input.py api/test_stream.py "
            "api/test_hanging_up.py api/test_completions.py api/test_streams_resumed.py api/test_rates.py",
            "http/re*.py": "api/test_streams_resumed.py api/test_streams_survive.py api/test_dead_servers.py "
            "api/test_responses_life.py",
            "http/run*.py": "api/test_responses_life.py api/test_streams_resumed.py api/test_responses_stored.py",
            "http/following.py": "api/test_streams_resumed.py api/test_responses_life.py",
            "http/lazy_route.py": "api/test_lazy_routes.py",
            "http/lifecycle.py": "api/test_admission.py api/test_chat.py cli/test_serve.py",
            "http/server_tools.py": "api/test_server_tools.py api/test_layer.py",
            "http/session.py": "api/test_interactive.py api/test_sessions.py api/test_session_cache.py",
            "http/context.py": "api/test_source.py api/test_models.py",
            "api/batches/upload.py": "api/test_files.py",
            "http/*.py": "api/test_chat.py api/test_bad_input.py api/test_stream.py api/test_hanging_up.py",
        },
    ),
    Room(
        "batches",
        {
            "api/batches/offline.py": "cli/test_batch.py",
            "api/batches/*.py": "api/test_batches.py api/test_batches_beside.py api/test_message_batches.py",
        },
    ),
    Room(
        "workers",
        {
            "workers/peer.py": "workers/test_peer.py",
            "workers/*.py": "workers cli/test_workers.py",
        },
    ),
    Room(
        "router",
        {
            "tools/call.py": "tools/test_function.py tools/test_router.py tools/test_router_faults.py "
            "generation/test_rounds.py tools/test_registry.py catalog/test_toolbox.py",
            "tools/toolbox.py": "catalog/test_toolbox.py api/test_server_tools.py tools/test_registry.py "
            "cli/test_tools.py",
            "tools/function.py": "tools/test_function.py tools/test_router_faults.py tools/test_threads.py",
            "tools/mcp/http.py": "tools/test_mcp_public.py",
            "tools/mcp/*.py": "tools/test_mcp_answers.py tools/test_mcp.py tools/test_mcp_sessions.py "
            "tools/test_mcp_oauth.py tools/test_mcp_requests.py tools/test_mcp_faults.py",
            "tools/pool.py": "tools/test_pool.py tools/test_interpreter_pool.py tools/test_mcp_sessions.py",
            "tools/checked.py": "tools/test_result_limits.py tools/test_router.py tools/test_router_faults.py",
            "tools/*.py": "tools/test_router.py tools/test_router_faults.py tools/test_function.py "
            "generation/test_rounds.py api/test_server_tools.py",
        },
    ),
    Room(
        "sandbox",
        {
            "tools/python/interpreter.py": "tools/test_sandbox_limits.py tools/test_sandbox_replies.py "
            "tools/test_sandbox_stop.py tools/test_python.py tools/test_sandbox_walls.py",
            "tools/python/seccomp.py": "tools/test_system_calls.py tools/test_sandbox_walls.py tools/test_python.py",
            "tools/python/sandbox.py": "tools/test_sandbox_limits.py tools/test_sandbox_walls.py tools/test_python.py",
            "tools/python/*.py": "tools/test_sandbox_limits.py tools/test_python.py tools/test_sandbox_replies.py "
            "tools/test_sandbox_walls.py tools/test_sandbox_stop.py tools/test_interpreter_pool.py",
        },
    ),
    Room("tenancy", {"tenancy.py": "tenancy api/test_tenants.py api/test_admission.py api/test_rates.py"}),
    Room(
        "limits",
        {
            "config/limits.py": "config docs/test_settings.py",
            "tokens/bpe.py": "tokens/test_bpe.py tokens/test_encode.py tokens/test_slices.py",
            "tokens/bytelevel.py": "tokens/test_hf.py tokens/test_wordpiece.py tokens/test_gguf.py",
            "tokens/decoder.py": "tokens/test_scanner.py tokens/test_pieces.py tokens/test_bpe.py",
            "tokens/gguf.py": "tokens/test_wordpiece.py tokens/test_table.py tokens/test_gguf.py",
            "tokens/hf*.py": "tokens/test_steps.py tokens/test_hf.py tokens/test_slices.py",
            "tokens/pretokenizers.py": "tokens/test_gguf.py",
            "tokens/sentencepiece_model.py": "tokens/test_sentencepiece_model.py",
            "tokens/slices.py": "tokens/test_steps.py tokens/test_slices.py tokens/test_encode.py",
            "tokens/table.py": "tokens/test_table.py tokens/test_wordpiece.py tokens/test_bpe.py tokens/test_hf.py "
            "tokens/test_slices.py",
            "tokens/wordpiece.py": "tokens/test_wordpiece.py tokens/test_slices.py",
            "tokens/*.py": "tokens/test_encode.py tokens/test_pieces.py tokens/test_slices.py",
            "generation/constraint.py": "grammar/test_cost.py generation/test_constrain.py",
            "generation/normalize.py": "generation/test_turn.py api/test_names_walk.py",
            "http/client.py": "api/test_framing.py api/test_bad_input.py api/test_slow_clients.py "
            "api/test_hanging_up.py",
            "http/server/connection.py": "api/test_framing.py api/test_slow_clients.py api/test_uvicorn.py",
            "http/sse.py": "api/test_stream.py api/test_rates.py api/test_slow_clients.py api/test_chat.py "
            "api/test_hanging_up.py",
            "formats/template/budget.py": "formats/template/test_budget.py formats/template/test_jinja.py",
            "formats/template/operators.py": "formats/template/test_budget.py formats/template/test_prices.py",
            "formats/template/methods.py": "formats/template/test_budget.py formats/template/test_prices.py",
            "formats/template/filters.py": "formats/template/test_prices.py formats/template/test_jinja.py",
            "formats/template/sandbox.py": "formats/template/test_jinja.py formats/template/test_prices.py",
        },
    ),
    Room(
        "grammar",
        {
            "grammar/rules.py": "grammar/test_ecma.py grammar/test_schema.py grammar/test_law.py",
            "grammar/following.py": "api/test_finish.py grammar/test_edges.py grammar/test_grammar.py "
            "grammar/test_cost.py generation/test_constrain.py",
            "grammar/limits.py": "grammar/test_edges.py grammar/test_limits.py grammar/test_cost.py "
            "grammar/test_grammar.py generation/test_compile.py",
            "grammar/compiler.py": "api/test_finish.py grammar/test_edges.py",
            "grammar/*literals.py": "grammar/test_key_values.py",
            "grammar/lark_text.py": "grammar/test_numbers.py grammar/test_grammar.py grammar/test_edges.py "
            "grammar/test_schema.py generation/test_constrain.py generation/test_compile.py",
            "grammar/*_values.py": "grammar/test_key_values.py grammar/test_numbers.py grammar/test_multiples.py "
            "grammar/test_schema.py grammar/test_edges.py",
            "grammar/source/*.py": "grammar/source",
            "grammar/schema/order.py": "grammar/test_order.py grammar/test_schema.py",
            "grammar/schema/branches.py": "grammar/test_order.py grammar/test_schema.py",
            "grammar/schema/exact.py": "grammar/test_exact.py grammar/test_schema.py grammar/test_limits.py "
            "grammar/test_law.py",
            "grammar/schema/controls.py": "grammar/test_controls.py grammar/test_schema.py grammar/test_law.py",
            "grammar/schema/*.py": "grammar/test_edges.py grammar/test_schema.py grammar/test_limits.py "
            "grammar/test_law.py "
            "grammar/test_schema_examples.py",
            "grammar/*.py": "grammar/test_grammar.py grammar/test_edges.py grammar/test_schema.py "
            "generation/test_constrain.py "
            "generation/test_compile.py",
        },
    ),
    Room(
        "harmony",
        {
            "formats/harmony/*.py": "formats/harmony/test_rendering.py formats/harmony/test_reading.py "
            "formats/harmony/test_rules.py formats/harmony/test_machine.py formats/harmony/test_header_values.py "
            "formats/harmony/test_running.py formats/harmony/test_header_as_written.py "
            "formats/harmony/test_admitted.py",
        },
    ),
    Room(
        "openchatml",
        {
            "formats/openchatml/lint/*.py": "formats/openchatml/test_lint.py",
            "formats/conformance.py": "formats/openchatml/test_conformance.py cli/test_conformance_command.py",
            "formats/openchatml/edited.py": "editors/test_server.py",
            "formats/openchatml/*.py": "formats/openchatml/test_format.py formats/openchatml/test_conformance.py "
            "formats/openchatml/test_events.py "
            "formats/openchatml/test_round_trip.py formats/openchatml/test_declarations.py "
            "formats/openchatml/test_machine.py formats/openchatml/test_schemas.py formats/openchatml/test_exits.py "
            "formats/openchatml/test_canonical.py formats/openchatml/test_projection.py "
            "formats/openchatml/test_second_reader.py formats/openchatml/test_hints.py",
        },
    ),
    Room(
        "replies",
        {
            "formats/replies/*.py": "formats/template/reply formats/template/test_reply.py "
            "formats/template/test_check.py api/test_reply_families.py",
        },
    ),
    Room(
        "template",
        {
            "formats/template/*.py": "formats/template/test_jinja.py "
            "formats/template/test_budget.py formats/template/test_history.py formats/template/test_check.py "
            "formats/template/test_template_format.py formats/template/test_base_template.py "
            "formats/template/test_images.py formats/template/test_taught.py formats/template/test_docs.py",
        },
    ),
    Room(
        "generation",
        {
            "generation/*.py": "generation/test_turn.py generation/test_steps.py generation/test_rounds.py "
            "generation/test_sequences.py generation/test_sampled_history.py generation/test_cut_replies.py "
            "generation/test_recall.py generation/test_constrain.py generation/test_compile.py "
            "generation/test_precedence.py generation/test_calls_preferred.py generation/test_cancel.py "
            "api/test_chat.py api/test_layer.py api/test_names_walk.py api/test_images_seen.py",
        },
    ),
    Room("conversion", {"conversion/*.py": "conversion cli/test_convert.py api/test_convert.py"}),
)

// The tables; those of models and engines are in lib/engine.
#include "lib/server/config/neighbour_flags.h"

#include <array>

#include "lib/engine/options/neighbour_reasons.h"

namespace nvllm::server {
namespace {

using enum ForeignValues;

constexpr auto kOneProcess = "one process serves all; --text-threads is about reading requests";
constexpr auto kAlwaysTold = "answers always have it";
constexpr auto kFixedAnswers = "answers have the fields of OpenAI's";
constexpr auto kNoPython = "Python code cannot be plugged in";
constexpr auto kNoPages = "there are no such pages; /openapi.json describes the interface";
constexpr auto kCors = "pages of --allowed-origins may send every method and header a route has";
constexpr auto kOneRank = "there are no ranks to watch";

constexpr auto kVllm = std::to_array<ForeignFlag>({
    // vLLM's default, 0, and every other value make unseeded requests differ from each other.
    foreign_ignored("--seed -s", one,
                    "a request without a seed of its own is random; one with it always gets the "
                    "same answer"),
    foreign_refused("--headless --grpc", none, "HTTP is what is served"),
    foreign_refused("--grpc-port --data-parallel-supervisor-port", one, "HTTP is what is served"),
    foreign_ignored("--api-server-count -asc", one, kOneProcess),
    foreign_ignored("--disable-frontend-multiprocessing", none, kOneProcess),
    foreign_ignored("--dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s "
                    "--dp-supervisor-probe-failure-threshold",
                    one, kOneRank),
    // What is logged.
    foreign_alias("--enable-log-requests", none, "log-requests"),
    foreign_alias("--disable-log-requests --disable-uvicorn-access-log", none, "no-log-requests"),
    foreign_alias("--disable-log-stats", none, "log-stats-interval=0"),
    foreign_alias("--uvicorn-log-level --log-level", one, "log-level=error",
                  "critical CRITICAL ERROR"),
    foreign_alias("--uvicorn-log-level --log-level", one, "log-level=warning", "WARNING"),
    foreign_alias("--uvicorn-log-level --log-level", one, "log-level=info", "INFO"),
    foreign_alias("--uvicorn-log-level --log-level", one, "log-level=debug", "trace DEBUG NOTSET"),
    foreign_alias("--uvicorn-log-level", one, "log-level"),
    foreign_ignored("--disable-access-log-for-endpoints", one,
                    "requests are logged only with --log-requests, and then all"),
    foreign_ignored("--max-log-len", one, "prompts are never logged"),
    foreign_refused("--enable-log-outputs", none, "answers are never logged"),
    foreign_ignored("--enable-log-deltas --log-error-stack", none, "answers are never logged"),
    // Chats.
    foreign_refused("--chat-template-content-format", one,
                    "what a template can take is found out when it is loaded", "auto"),
    foreign_refused("--default-chat-template-kwargs --reasoning-effort-map", one,
                    "requests say chat_template_kwargs themselves", "{}"),
    foreign_refused("--response-role", one, "answers are the assistant's", "assistant"),
    foreign_ignored("--enable-auto-tool-choice", none, "the model always decides with auto"),
    foreign_ignored("--enable-reasoning", none, "--reasoning-parser tells it apart"),
    foreign_refused("--tool-parser-plugin --reasoning-parser-plugin", one, kNoPython),
    foreign_refused("--tool-strict-level", one,
                    "arguments are held to their schema where a function says strict"),
    foreign_refused("--tool-server", one, "clients run the tools that are called"),
    foreign_refused("--exclude-tools-when-tool-choice-none", none,
                    "the template gets the tools that a request names"),
    foreign_refused("--prompt-adapters", many, kNoPromptAdapters),
    foreign_ignored("--trust-request-mm-kwargs", none,
                    "requests with images, sound or video are refused"),
    foreign_ignored("--cohere-is-reasoning-model", none, "Cohere's API is not served"),
    foreign_ignored("--cohere-format --anthropic-disabled-thinking-effort", one,
                    "OpenAI's API is what is served"),
    // Responses.
    foreign_refused("--return-tokens-as-token-ids", none,
                    "requests ask for ids with return_token_ids"),
    foreign_ignored("--enable-prompt-tokens-details --enable-request-id-headers", none,
                    kAlwaysTold),
    foreign_refused("--enable-force-include-usage", none,
                    "streams tell it when they ask: stream_options.include_usage"),
    foreign_refused("--enable-per-request-metrics --tokens-only --enable-scale-out", none,
                    kFixedAnswers),
    foreign_ignored("--enable-tokenizer-info-endpoint", none, "/tokenizer_info is always there"),
    foreign_ignored("--enable-server-load-tracking", none,
                    "/load, /metrics and /nvllm/status tell it"),
    foreign_refused("--fingerprint-mode --fingerprint-value", one, kFixedAnswers, "full hash"),
    foreign_alias("--sse-keep-alive-interval", one, "keep-alive-interval"),
    foreign_ignored("--enable-flash-late-interaction", none, "texts are not scored"),
    // Limits.
    foreign_alias("--max-num-queued-reqs", one, "max-queued-requests"),
    foreign_refused("--max-num-queued-tokens", one,
                    "--max-queued-pools bounds them, in multiples of the key-value cache"),
    foreign_ignored("--h11-max-incomplete-event-size", one,
                    "--max-header-bytes and --max-body are the limits"),
    foreign_alias("--h11-max-header-count", one, "max-headers"),
    // Connections.
    foreign_ignored("--allow-credentials", none, "cookies are not used"),
    foreign_refused("--allowed-methods --allowed-headers", one, kCors, "* [\"*\"]"),
    foreign_refused("--ssl-ca-certs --ssl-ciphers", one,
                    "clients are known by their keys, and ciphers are OpenSSL's choice"),
    foreign_refused("--ssl-cert-reqs", one, "clients are known by their keys", "0"),
    foreign_refused("--enable-ssl-refresh", none,
                    "certificates are read at start: start the server again"),
    foreign_refused("--root-path", one, "a proxy has to take the prefix off", "/"),
    foreign_refused("--middleware", one, kNoPython),
    foreign_ignored("--disable-fastapi-docs --enable-offline-docs", none, kNoPages),
});

constexpr auto kLlama = std::to_array<ForeignFlag>({
    foreign_refused("--temp --temperature --top-k --top-p --min-p --typical --repeat-penalty "
                    "--presence-penalty --frequency-penalty --predict --n-predict",
                    one,
                    "requests say how tokens are chosen; --override-generation-config sets what "
                    "holds where they do not"),
    foreign_alias("-a --alias", one, "served-model-name"),
    foreign_alias("--no-webui --no-ui", none, "no-page"),
    foreign_alias("--webui", none, "page"),
    foreign_alias("-to", one, "request-timeout"),
    foreign_alias("--ssl-key-file", one, "ssl-keyfile"),
    foreign_alias("--ssl-cert-file", one, "ssl-certfile"),
    foreign_refused("--api-prefix --path", one, "a proxy has to take the prefix off"),
    foreign_ignored("--threads-http", one, kOneProcess),
    foreign_ignored("--metrics --slots --no-slots --props", none,
                    "/metrics and /nvllm/status are always there"),
    foreign_ignored("--embedding --embeddings", none, "every model answers /v1/embeddings"),
    foreign_ignored("--rerank --reranking", none, "/v1/rerank is served whatever the model is"),
    foreign_refused("--pooling", one, "pooling is what the model's folder says"),
    foreign_refused("--slot-save-path --slot-prompt-similarity -sps", one,
                    "prompts are shared by the prefix cache"),
    foreign_ignored("--cache-reuse --cache-ram -cram", one,
                    "prompts are shared by the prefix cache"),
    foreign_ignored("--cache-prompt --no-cache-prompt", none,
                    "--no-enable-prefix-caching turns the prefix cache off"),
});

}  // namespace

std::span<const ForeignFlag> vllm_serve_flags() { return kVllm; }

std::span<const ForeignFlag> llama_server_flags() { return kLlama; }

}  // namespace nvllm::server

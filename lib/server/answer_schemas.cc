// Answers one by one.
#include "lib/server/answer_schemas.h"

#include "lib/server/schema.h"

namespace nvllm::server {
namespace {

using namespace schema;

Json count() { return integer(0); }
Json constant(const char* word) { return values({word}); }
Json text_or_null() { return or_null(text()); }

Json error() {
    return object({{"error", object({{"message", text()},
                                     {"type", text()},
                                     {"param", text_or_null()},
                                     {"code", text_or_null()}})}});
}

Json usage() {
    return object({{"prompt_tokens", count()},
                   {"completion_tokens", count()},
                   {"total_tokens", count()},
                   {"prompt_tokens_details", object({{"cached_tokens", count()}})}});
}

Json completion_logprobs() {
    return object({{"tokens", list(text())},
                   {"token_logprobs", list(or_null(number()))},
                   {"top_logprobs", list(or_null(map_of(number())))},
                   {"text_offset", list(count())}});
}

Json token_logprob(std::vector<Property> more = {}) {
    std::vector<Property> properties = {
        {"token", text()}, {"logprob", number()}, {"bytes", list(integer(0, 255))}};
    for (Property& property : more) properties.push_back(std::move(property));
    return object(std::move(properties));
}

Json chat_logprobs() {
    return object({{"content", list(token_logprob({{"top_logprobs", list(token_logprob())}}))},
                   {"refusal", text_or_null()}});
}

// One of each prompt token; null for the first.
Json prompt_logprobs() {
    return list(or_null(map_of(
        object({{"logprob", number()}, {"rank", count()}, {"decoded_token", text_or_null()}}))));
}

// `said`: the choice's text, message or delta.
Json choice(Property said, std::string_view logprobs) {
    return object({{"index", count()},
                   std::move(said),
                   {"logprobs", or_null(reference(logprobs))},
                   {"finish_reason", or_null(text())},
                   {"stop_reason", or_null(integer()), false},
                   {"token_ids", list(integer()), false},
                   {"prompt_logprobs", prompt_logprobs(), false}});
}

Json answer(const char* kind, Json choices, Property usage_property) {
    return object({{"id", text()},
                   {"object", constant(kind)},
                   {"created", integer()},
                   {"model", text()},
                   {"choices", list(std::move(choices))},
                   std::move(usage_property)});
}

Json whole(const char* kind, Json choices) {
    return answer(kind, std::move(choices), {"usage", reference("Usage")});
}

Json chunk(const char* kind, Json choices) {
    Json json = answer(kind, std::move(choices), {"usage", or_null(reference("Usage")), false});
    json["properties"]["prompt_progress"] = object(
        {{"total", count()}, {"cache", count()}, {"processed", count()}, {"time_ms", number()}});
    return json;
}

Json message() {
    return object(
        {{"role", constant("assistant")}, {"content", text()}, {"refusal", text_or_null()}});
}

Json delta() {
    return object({{"role", constant("assistant"), false}, {"content", text(), false}});
}

Json model() {
    return object({{"id", text()},
                   {"object", constant("model")},
                   {"created", integer()},
                   {"owned_by", text()},
                   {"root", text()},
                   {"parent", text_or_null()},
                   {"max_model_len", count(), false}});
}

Json embeddings() {
    const Json vector = any_of({list(number()), text()});
    return object({{"object", constant("list")},
                   {"data", list(object({{"object", constant("embedding")},
                                         {"index", count()},
                                         {"embedding", vector}}))},
                   {"model", text()},
                   {"usage", object({{"prompt_tokens", count()}, {"total_tokens", count()}})}});
}

Json tokens() {
    return object({{"count", count()},
                   {"max_model_len", count()},
                   {"tokens", list(integer())},
                   {"token_strs", list(text()), false}});
}

Json tokenizer_info() {
    return object({{"tokenizer_class", text()},
                   {"bos_token", text_or_null()},
                   {"eos_token", text_or_null()},
                   {"vocab_size", count()},
                   {"model_max_length", count()},
                   {"chat_template", text_or_null()}});
}

Json counts_of(std::initializer_list<std::string_view> names) {
    std::vector<Property> properties;
    for (const std::string_view name : names) properties.push_back({name, count()});
    return object(std::move(properties));
}

// Of a model that is ready.
std::vector<Property> engine_properties() {
    Json cache = counts_of({"blocks_total", "blocks_used", "blocks_cached", "blocks_free",
                            "block_size", "preemptions"});
    cache["properties"]["hit_rate"] = number();
    cache["properties"]["fragmentation"] = number();
    Json worker = counts_of({"restarts", "weight_reloads", "out_of_memory"});
    worker["properties"]["pid"] = or_null(integer());
    return {
        {"requests", counts_of({"running", "waiting", "paused", "swapped"}), false},
        {"kv_cache", std::move(cache), false},
        {"worker", std::move(worker), false},
        {"health",
         object({{"state", text()}, {"heartbeat_age_s", number()}, {"last_fault", text_or_null()}}),
         false}};
}

Json queued_call() {
    return object({{"id", text()},
                   {"state", values({"running", "waiting"})},
                   {"age_s", number()},
                   {"prompt_tokens", count()},
                   {"generated_tokens", count()},
                   {"why_waiting", text_or_null()}});
}

Json status() {
    std::vector<Property> of_model = {{"name", text()}, {"state", text()}};
    std::vector<Property> all = {
        {"version", text()},
        {"state", text()},
        {"uptime_s", number()},
        {"model", text(), false},
        {"calls", counts_of({"accepted", "finished", "aborted", "failed", "open"})},
        {"tokens", counts_of({"prompt_total", "generated_total", "scheduled_total"})},
        {"queue", list(queued_call())},
        {"limits", map_of(text_or_null())}};
    for (const Property& property : engine_properties()) {
        of_model.push_back(property);
        all.push_back(property);
    }
    all.push_back({"models", list(object(std::move(of_model)))});
    return object(std::move(all));
}

Json media(const char* type, Json schema) {
    Json json = Json::object();
    json[type]["schema"] = std::move(schema);
    return json;
}

Json json_of(std::string_view name) { return media("application/json", reference(name)); }

// A whole answer, or with `stream` one event after the other.
Json whole_or_stream(std::string_view whole_name, std::string_view chunk_name) {
    Json content = json_of(whole_name);
    Json event = any_of({reference(chunk_name), reference("Error"), constant("[DONE]")});
    event["description"] = "The data of each event; the last one is [DONE], after an error none.";
    content.update(media("text/event-stream", std::move(event)));
    return content;
}

}  // namespace

Json answer_schemas() {
    Json all = Json::object();
    all["Error"] = error();
    all["Usage"] = usage();
    all["CompletionLogprobs"] = completion_logprobs();
    all["ChatLogprobs"] = chat_logprobs();
    const Json written = choice({"text", text()}, "CompletionLogprobs");
    all["Completion"] = whole("text_completion", written);
    all["CompletionChunk"] = chunk("text_completion", written);
    all["ChatCompletion"] =
        whole("chat.completion", choice({"message", message()}, "ChatLogprobs"));
    all["ChatCompletionChunk"] =
        chunk("chat.completion.chunk", choice({"delta", delta()}, "ChatLogprobs"));
    all["Embeddings"] = embeddings();
    all["Model"] = model();
    all["ModelList"] = object({{"object", constant("list")}, {"data", list(reference("Model"))}});
    all["Tokens"] = tokens();
    all["Text"] = object({{"prompt", text()}, {"content", text()}});
    all["TokenizerInfo"] = tokenizer_info();
    all["State"] = object({{"status", text()}});
    all["Version"] = object({{"version", text()}});
    all["Status"] = status();
    return all;
}

Json answer_content(RouteAction action) {
    switch (action) {
        case RouteAction::page:
            return media("text/html", text());
        case RouteAction::scrape:
            return media("text/plain", text());
        case RouteAction::live:
        case RouteAction::ready:
            return json_of("State");
        case RouteAction::version:
            return json_of("Version");
        case RouteAction::openapi:
            return media("application/json", object());
        case RouteAction::status:
            return json_of("Status");
        case RouteAction::models:
            return json_of("ModelList");
        case RouteAction::model:
            return json_of("Model");
        case RouteAction::completions:
            return whole_or_stream("Completion", "CompletionChunk");
        case RouteAction::chat_completions:
            return whole_or_stream("ChatCompletion", "ChatCompletionChunk");
        case RouteAction::embeddings:
            return json_of("Embeddings");
        case RouteAction::tokenize:
            return json_of("Tokens");
        case RouteAction::detokenize:
            return json_of("Text");
        case RouteAction::tokenizer_info:
            return json_of("TokenizerInfo");
        case RouteAction::drain:
        case RouteAction::reload_keys:
        case RouteAction::resize_cache:
        case RouteAction::dump_state:
        case RouteAction::timeline:
        case RouteAction::load_model:
        case RouteAction::unload_model:
            break;
    }
    return media("application/json", anything());
}

}  // namespace nvllm::server

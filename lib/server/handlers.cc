// Routes whose answer is made at once.
#include "lib/server/handlers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/server/openapi.h"
#include "lib/server/page/chat_page.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Finding a key of an object goes through those before it.
constexpr size_t kMostKeys = 2048;
// A small text can be a large document.
constexpr size_t kMostParts = 256 * 1024;
// A body is read and turned into tokens in less than so many times its size.
constexpr size_t kBodyTimes = 8;
constexpr size_t kSmallBody = 32 * 1024;

HttpResponse json_response(const Json& body, int status = 200) {
    HttpResponse response;
    response.status = status;
    response.body = write_json(body);
    return response;
}

HttpResponse json_response(const Json& body, const std::vector<std::string>& ignored) {
    HttpResponse response = json_response(body);
    if (!ignored.empty()) response.headers.push_back(ignored_header(ignored));
    return response;
}

Json model_json(const HostedModel& model, const std::string& name) {
    Json json = {{"id", name},
                 {"object", "model"},
                 {"created", model.created()},
                 {"owned_by", "nvllm"},
                 {"root", model.config().model},
                 {"parent", nullptr}};
    if (model.state() == ModelState::ready) {
        json["max_model_len"] = model.engine()->memory_plan().max_model_len;
    }
    return json;
}

ApiError wrong_field(const std::string& field, const std::string& complaint) {
    return api_error(field_fault(field, complaint));
}

// What takes as much to answer as somebody sends.
bool is_question(RouteAction action) {
    return action == RouteAction::completions || action == RouteAction::chat_completions ||
           action == RouteAction::embeddings || action == RouteAction::tokenize ||
           action == RouteAction::detokenize;
}

// What has been let in comes first.
bool has_memory_for(const HttpRequest& request, const MemoryReserve& reserve) {
    const bool is_small = request.body.size() <= kSmallBody;
    return reserve.is_whole() && (is_small || can_have_memory(kBodyTimes * request.body.size()));
}

std::string name_in(const Json& body) {
    const Json name = body.is_object() ? body.value("model", Json()) : Json();
    return name.is_string() ? name.get<std::string>() : std::string();
}

// The field's value, which is no longer in the object; null where there is none.
Json take(Json& object, const char* field) {
    const auto found = object.is_object() ? object.find(field) : object.end();
    if (found == object.end()) return nullptr;
    Json value = std::move(*found);
    object.erase(found);
    return value;
}

// Those that /v1/chat/completions computes for the same messages and variables.
Result<std::vector<int32_t>> chat_ids(Json body, const HostedModel& model) {
    if (take(body, "add_special_tokens") == Json(true)) {
        return field_fault("add_special_tokens", "is for texts: a chat's template writes its own");
    }
    auto prompt = read_chat_prompt(std::move(body), model.call_limits());
    if (!prompt) return prompt.fault();
    const Engine& engine = *model.engine();
    auto chat = engine.input_processor().conversations().render(**prompt);
    if (!chat) return chat.fault();
    return encode_chat(*engine.tokenizer(), *chat, false);
}

}  // namespace

Result<Json> read_body(const HttpRequest& request, const ServerConfig& config) {
    JsonLimits limits;
    limits.max_depth = static_cast<size_t>(config.max_json_depth);
    limits.max_bytes = config.max_body_bytes;
    limits.max_keys = kMostKeys;
    limits.max_parts = kMostParts;
    try {
        return parse_ordered_json(request.body, "request body", limits);
    } catch (const Error& error) {
        return Fault{ErrorKind::bad_data, error.what(), "", "invalid_json"};
    }
}

std::shared_ptr<HostedModel> find_ready(const ModelSet& models, const std::string& name,
                                        ApiError& error) {
    auto model = models.find(name);
    if (model == nullptr) {
        error = {.status = 404,
                 .message = fmt::format("the model '{}' is not served here; /v1/models lists those "
                                        "that are",
                                        name.substr(0, 128)),
                 .code = "model_not_found",
                 .param = "model"};
        return nullptr;
    }
    if (model->state() == ModelState::ready) {
        const EngineState engine = model->engine()->health().state;
        if (engine != EngineState::failed) return model;
        error = {
            .status = 503,
            .message = fmt::format("the engine of '{}' could not be started again", model->name()),
            .code = "engine_dead"};
        return nullptr;
    }
    error = {.status = 503,
             .message = fmt::format("the model '{}' is {}", model->name(),
                                    model_state_name(model->state())),
             .code = model->state() == ModelState::failed ? "model_failed" : "loading",
             .retry_after_s = 1};
    return nullptr;
}

Handlers::Handlers(Service& service)
    : service_(service), document_(write_json(openapi_document(service.version, service.config))) {}

void Handlers::run(const Route& route, const ExchangePointer& exchange) {
    try {
        if (is_question(route.action) && !has_memory_for(exchange->request(), service_.reserve)) {
            return exchange->respond(error_response(out_of_memory()));
        }
        if (route.action == RouteAction::completions) return generate(exchange, false);
        if (route.action == RouteAction::chat_completions) return generate(exchange, true);
        if (route.action == RouteAction::embeddings) return embed(exchange);
        exchange->respond(answer(route, *exchange));
    } catch (const std::bad_alloc&) {
        exchange->respond(error_response(out_of_memory()));
    } catch (const Error& error) {
        exchange->respond(error_response(api_error(Fault{error.kind(), error.what()})));
    } catch (const std::exception&) {
        exchange->respond(error_response({.status = 500,
                                          .message = "the request could not be answered",
                                          .code = "internal_error"}));
    }
}

HttpResponse Handlers::answer(const Route& route, const Exchange& exchange) {
    const HttpRequest& request = exchange.request();
    switch (route.action) {
        case RouteAction::page:
            return page();
        case RouteAction::live:
            return json_response({{"status", "live"}});
        case RouteAction::ready:
            return readiness();
        case RouteAction::version:
            return json_response({{"version", service_.version}});
        case RouteAction::openapi:
            return document();
        case RouteAction::scrape:
            return scrape();
        case RouteAction::status:
            return status();
        case RouteAction::models:
            return list_models();
        case RouteAction::model:
            return describe_model(request);
        case RouteAction::tokenize:
            return tokenize(request);
        case RouteAction::detokenize:
            return detokenize(request);
        case RouteAction::tokenizer_info:
            return tokenizer_info(request);
        case RouteAction::drain:
            service_.drain();
            return json_response({{"status", "draining"}});
        case RouteAction::reload_keys:
            service_.reload();
            return json_response({{"status", "reloaded"}, {"keys", service_.keys.size()}});
        case RouteAction::resize_cache:
            return resize_cache(request);
        case RouteAction::dump_state:
            return dump_state();
        case RouteAction::timeline:
            return timeline(request);
        case RouteAction::load_model:
            return change_models(request, true);
        case RouteAction::unload_model:
            return change_models(request, false);
        case RouteAction::completions:
        case RouteAction::chat_completions:
        case RouteAction::embeddings:
            break;
    }
    return error_response({.status = 500, .message = "a route without a handler"});
}

HttpResponse Handlers::document() const {
    HttpResponse response;
    response.body = document_;
    return response;
}

HttpResponse Handlers::page() const {
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.headers = {{"Content-Security-Policy", chat_page_policy()},
                        {"Cache-Control", "no-cache"},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Referrer-Policy", "no-referrer"}};
    response.body = chat_page();
    return response;
}

HttpResponse Handlers::readiness() const {
    const auto models = service_.models.all();
    const auto not_ready = [](const std::string& code, Json more = Json::object()) {
        more["status"] = code;
        HttpResponse response = json_response(more, 503);
        response.headers.push_back({"Retry-After", "1"});
        return response;
    };
    if (service_.is_ending()) return not_ready("shutting_down");
    for (const auto& model : models) {
        if (model->state() == ModelState::failed) {
            return not_ready("model_failed", {{"model", model->name()}});
        }
        if (model->state() == ModelState::loading) {
            return not_ready("loading", {{"model", model->name()}});
        }
        const EngineHealth health = model->engine()->health();
        if (health.state == EngineState::stalled) {
            return not_ready("engine_stalled", {{"model", model->name()},
                                                {"seconds", health.seconds_since_heartbeat}});
        }
        if (health.state == EngineState::failed) {
            return not_ready("engine_dead", {{"model", model->name()}});
        }
    }
    return json_response({{"status", "ready"}});
}

// Those that can be asked; while there is none yet, clients are to come again.
HttpResponse Handlers::list_models() const {
    Json data = Json::array();
    ApiError error;
    for (const auto& model : service_.models.all()) {
        if (find_ready(service_.models, model->name(), error) == nullptr) continue;
        for (const std::string& name : model->names()) data.push_back(model_json(*model, name));
    }
    if (data.empty() && error.status == 503) return error_response(error);
    return json_response({{"object", "list"}, {"data", std::move(data)}});
}

HttpResponse Handlers::describe_model(const HttpRequest& request) const {
    const std::string name =
        percent_decoded(request.path.substr(std::string_view("/v1/models/").size()));
    ApiError error;
    const auto model = service_.models.find(name);
    if (model != nullptr) return json_response(model_json(*model, name));
    find_ready(service_.models, name, error);
    return error_response(error);
}

Result<Json> Handlers::known_fields(const HttpRequest& request, CallKind kind,
                                    std::vector<std::string>& ignored) const {
    auto body = read_body(request, service_.config);
    if (!body || !body->is_object()) return body;
    auto idle = take_idle_fields(*body, kind, service_.config.strict_fields);
    if (!idle) return idle.fault();
    ignored = std::move(*idle);
    return body;
}

// {"prompt"| "content": text} or {"messages": [...]}, as vLLM and llama.cpp name it.
HttpResponse Handlers::tokenize(const HttpRequest& request) const {
    std::vector<std::string> ignored;
    auto body = known_fields(request, CallKind::tokenize, ignored);
    if (!body) return error_response(api_error(body.fault()));
    ApiError error;
    const auto model = find_ready(service_.models, name_in(*body), error);
    if (model == nullptr) return error_response(error);
    const auto& tokenizer = model->engine()->tokenizer();
    if (tokenizer == nullptr) {
        return error_response({.message = "this model has no tokenizer", .code = "no_tokenizer"});
    }
    const Json wants_texts = take(*body, "return_token_strs");
    if (!wants_texts.is_null() && !wants_texts.is_boolean()) {
        return error_response(wrong_field("return_token_strs", "must be true or false"));
    }
    std::vector<int32_t> ids;
    if (body->is_object() && body->contains("messages")) {
        auto chat = chat_ids(std::move(*body), *model);
        if (!chat) return error_response(api_error(chat.fault()));
        ids = std::move(*chat);
    } else {
        const char* field = body->is_object() && body->contains("content") ? "content" : "prompt";
        const Json text = body->is_object() ? body->value(field, Json()) : Json();
        if (!text.is_string()) return error_response(wrong_field(field, "must be a string"));
        const Json special =
            body->value("add_special_tokens", Json(field == std::string("prompt")));
        if (!special.is_boolean()) {
            return error_response(wrong_field("add_special_tokens", "must be true or false"));
        }
        EncodeOptions options;
        options.add_special_tokens = special.get<bool>();
        ids = tokenizer->encode(text.get_ref<const std::string&>(), options);
    }
    Json answer = {{"count", ids.size()},
                   {"max_model_len", model->engine()->memory_plan().max_model_len},
                   {"tokens", ids}};
    if (wants_texts == Json(true)) {
        Json texts = Json::array();
        for (const int32_t id : ids) texts.push_back(tokenizer->token_text(id));
        answer["token_strs"] = std::move(texts);
    }
    return json_response(answer, ignored);
}

HttpResponse Handlers::detokenize(const HttpRequest& request) const {
    std::vector<std::string> ignored;
    auto body = known_fields(request, CallKind::detokenize, ignored);
    if (!body) return error_response(api_error(body.fault()));
    ApiError error;
    const auto model = find_ready(service_.models, name_in(*body), error);
    if (model == nullptr) return error_response(error);
    const Json tokens = body->is_object() ? body->value("tokens", Json()) : Json();
    auto ids = request_from_json(Json{{"prompt", tokens}}, {});
    if (!tokens.is_array() || !ids) {
        return error_response(wrong_field("tokens", "must be a list of token ids"));
    }
    const auto& tokenizer = model->engine()->tokenizer();
    if (tokenizer == nullptr) {
        return error_response({.message = "this model has no tokenizer", .code = "no_tokenizer"});
    }
    const std::string text =
        tokenizer->decode(std::get<std::vector<int32_t>>(ids->input.prompt), false);
    return json_response({{"prompt", text}, {"content", text}}, ignored);
}

// In vLLM's words, which lm-eval looks for.
HttpResponse Handlers::tokenizer_info(const HttpRequest& request) const {
    constexpr std::string_view kModel = "model=";
    const bool is_named = request.query.starts_with(kModel);
    ApiError error;
    const auto model = find_ready(
        service_.models,
        is_named ? percent_decoded(request.query.substr(kModel.size())) : std::string(), error);
    if (model == nullptr) return error_response(error);
    const auto& tokenizer = model->engine()->tokenizer();
    if (tokenizer == nullptr) {
        return error_response({.message = "this model has no tokenizer", .code = "no_tokenizer"});
    }
    const auto text_or_null = [](const std::string& text) {
        return text.empty() ? Json(nullptr) : Json(text);
    };
    return json_response({{"tokenizer_class", tokenizer->algorithm()},
                          {"bos_token", text_or_null(tokenizer->bos_text())},
                          {"eos_token", text_or_null(tokenizer->eos_text())},
                          {"vocab_size", tokenizer->vocab_size()},
                          {"model_max_length", model->engine()->memory_plan().max_model_len},
                          {"chat_template", text_or_null(tokenizer->chat_template())}});
}

}  // namespace nvllm::server

// Routes whose answer is made at once.
#include "lib/server/handlers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/server/openai/openapi.h"
#include "lib/server/openai/typed_response.h"
#include "lib/server/page/chat_page.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Finding a key of an object goes through those before it.
constexpr size_t kMaxKeys = 2048;
// A small text can be a large document.
constexpr size_t kMaxParts = 256 * 1024;
// A body is read and turned into tokens in less than so many times its size.
constexpr size_t kBodyTimes = 8;
constexpr size_t kSmallBody = 32 * 1024;

// Says beside the answer which fields of the body did nothing, and what `headers` say.
template <typename T>
HttpResponse response_naming(const T& answer, const std::vector<std::string>& ignored,
                             std::vector<HttpHeader> headers) {
    HttpResponse response = typed_response(answer);
    response.headers = std::move(headers);
    if (!ignored.empty()) response.headers.push_back(ignored_header(ignored));
    return response;
}

responses::Model model_response(const HostedModel& model, const std::string& name) {
    responses::Model answer;
    answer.id = name;
    answer.created = model.created();
    answer.root = model.config().model;
    if (model.state() == ModelState::ready) {
        answer.max_model_len = model.engine()->memory_plan().max_model_len;
    }
    return answer;
}

std::optional<std::string> text_or_null(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

ApiError wrong_field(const std::string& field, const std::string& complaint) {
    return api_error(field_fault(field, complaint));
}

// What takes as much to answer as somebody sends.
bool is_model_work(RouteAction action) {
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
    auto prompt = read_chat_prompt(std::move(body), model.request_limits());
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
    limits.max_keys = kMaxKeys;
    limits.max_parts = kMaxParts;
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

void Handlers::run(const Route& route, const TransactionPointer& transaction) {
    try {
        if (is_model_work(route.action) &&
            !has_memory_for(transaction->request(), service_.reserve)) {
            return transaction->respond(error_response(out_of_memory()));
        }
        if (route.action == RouteAction::completions) return generate(transaction, false);
        if (route.action == RouteAction::chat_completions) return generate(transaction, true);
        if (route.action == RouteAction::embeddings) return embed(transaction);
        transaction->respond(answer(route, *transaction));
    } catch (const std::bad_alloc&) {
        transaction->respond(error_response(out_of_memory()));
    } catch (const Error& error) {
        transaction->respond(error_response(api_error(Fault{error.kind(), error.what()})));
    } catch (const std::exception&) {
        transaction->respond(error_response({.status = 500,
                                             .message = "the request could not be answered",
                                             .code = "internal_error"}));
    }
}

HttpResponse Handlers::answer(const Route& route, const HttpTransaction& transaction) {
    const HttpRequest& request = transaction.request();
    switch (route.action) {
        case RouteAction::page:
            return page();
        case RouteAction::live:
            return typed_response(responses::State{.status = "live", .model = {}, .seconds = {}});
        case RouteAction::ready:
            return readiness();
        case RouteAction::version:
            return typed_response(responses::Version{service_.version});
        case RouteAction::load:
            return typed_response(responses::Load{service_.calls.size()});
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
    const auto not_ready = [](const char* code, Maybe<std::string> model = {},
                              Maybe<double> seconds = {}) {
        HttpResponse response = typed_response(responses::State{code, model, seconds}, 503);
        response.headers.push_back({"Retry-After", "1"});
        return response;
    };
    if (service_.is_shutting_down()) return not_ready("shutting_down");
    for (const auto& model : service_.models.all()) {
        if (model->state() == ModelState::failed) return not_ready("model_failed", model->name());
        if (model->state() == ModelState::loading) return not_ready("loading", model->name());
        const EngineHealth health = model->engine()->health();
        if (health.state == EngineState::stalled) {
            return not_ready("engine_stalled", model->name(), health.seconds_since_heartbeat);
        }
        if (health.state == EngineState::failed) return not_ready("engine_dead", model->name());
    }
    return typed_response(responses::State{.status = "ready", .model = {}, .seconds = {}});
}

// Those that can be asked; while there is none yet, clients are to come again.
HttpResponse Handlers::list_models() const {
    responses::ModelList list;
    ApiError error;
    for (const auto& model : service_.models.all()) {
        if (find_ready(service_.models, model->name(), error) == nullptr) continue;
        for (const std::string& name : model->names()) {
            list.data.push_back(model_response(*model, name));
        }
    }
    if (list.data.empty() && error.status == 503) return error_response(error);
    return typed_response(list);
}

HttpResponse Handlers::describe_model(const HttpRequest& request) const {
    const std::string name =
        percent_decoded(request.path.substr(std::string_view("/v1/models/").size()));
    ApiError error;
    const auto model = service_.models.find(name);
    if (model != nullptr) return typed_response(model_response(*model, name));
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
    std::vector<HttpHeader> chosen = chosen_model(service_.models, name_in(*body), *model);
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
    responses::Tokens answer;
    answer.count = ids.size();
    answer.max_model_len = model->engine()->memory_plan().max_model_len;
    if (wants_texts == Json(true)) {
        auto& texts = answer.token_strs.emplace();
        for (const int32_t id : ids) texts.push_back(tokenizer->token_text(id));
    }
    answer.tokens = std::move(ids);
    return response_naming(answer, ignored, std::move(chosen));
}

HttpResponse Handlers::detokenize(const HttpRequest& request) const {
    std::vector<std::string> ignored;
    auto body = known_fields(request, CallKind::detokenize, ignored);
    if (!body) return error_response(api_error(body.fault()));
    ApiError error;
    const auto model = find_ready(service_.models, name_in(*body), error);
    if (model == nullptr) return error_response(error);
    const auto& tokenizer = model->engine()->tokenizer();
    if (tokenizer == nullptr) {
        return error_response({.message = "this model has no tokenizer", .code = "no_tokenizer"});
    }
    const Json tokens = body->is_object() ? body->value("tokens", Json()) : Json();
    auto ids = read_token_ids(tokens, "tokens");
    if (!ids) return error_response(api_error(ids.fault()));
    if (auto unknown = model->engine()->input_processor().check_known(*ids, "tokens")) {
        return error_response(api_error(*unknown));
    }
    return response_naming(responses::Text{tokenizer->decode(*ids, false)}, ignored,
                           chosen_model(service_.models, name_in(*body), *model));
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
    responses::TokenizerInfo answer;
    answer.tokenizer_class = tokenizer->algorithm();
    answer.bos_token = text_or_null(tokenizer->bos_text());
    answer.eos_token = text_or_null(tokenizer->eos_text());
    answer.vocab_size = tokenizer->vocab_size();
    answer.model_max_length = model->engine()->memory_plan().max_model_len;
    answer.chat_template = text_or_null(tokenizer->chat_template());
    return typed_response(answer);
}

}  // namespace nvllm::server

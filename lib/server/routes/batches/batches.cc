// /v1/batches: files of requests, computed when there is room.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "lib/server/batches/batch_types.h"
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/parameters.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/batches/batch_requests.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/route_table.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxBatchesOfPage = 100;
constexpr size_t kBatchesOfPage = 20;
constexpr size_t kMaxMetadata = 16;  // as in the OpenAI API
constexpr std::string_view kPath = "/v1/batches/";
constexpr std::string_view kCancel = "/cancel";
constexpr int64_t kMaxHours = 24 * 365;
// Of these, those that the server has.
constexpr std::array kEndpoints = {
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
    "/v1/messages",         "/v1/rerank",      "/v1/score",
};

HttpResponse no_such_batch(const std::string& id) {
    return error_response({.status = 404,
                           .message = fmt::format("there is no batch '{}'", id.substr(0, 100)),
                           .code = "batch_not_found",
                           .param = "batch_id"});
}

bool is_endpoint(const std::string& path) {
    const bool is_known = std::ranges::find(kEndpoints, path) != kEndpoints.end();
    return is_known && route_table().find("POST", path) != nullptr;
}

std::string endpoint_names() {
    std::vector<std::string_view> names;
    for (const char* path : kEndpoints) {
        if (is_endpoint(path)) names.emplace_back(path);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

// "24h" in hours.
std::optional<int64_t> hours_of(const std::string& window) {
    int64_t hours = 0;
    const char* end = window.data() + window.size();
    const auto [rest, wrong] = std::from_chars(window.data(), end, hours);
    if (wrong != std::errc() || std::string_view(rest, end) != "h") return std::nullopt;
    if (hours < 1 || hours > kMaxHours) return std::nullopt;
    return hours;
}

Result<std::optional<Keyed<std::string>>> read_metadata(const Json& json) {
    using Metadata = std::optional<Keyed<std::string>>;
    if (json.is_null()) return Metadata();
    const Fault wrong =
        field_fault("metadata", fmt::format("must have at most {} texts by name", kMaxMetadata));
    if (!json.is_object() || json.size() > kMaxMetadata) return wrong;
    Metadata metadata(std::in_place);
    for (const auto& [name, value] : json.items()) {
        if (!value.is_string()) return wrong;
        metadata->emplace_back(name, value.get<std::string>());
    }
    return metadata;
}

Result<std::string> take_text(Json& body, const char* name) {
    const Json value = body.value(name, Json());
    body.erase(name);
    if (!value.is_string()) return field_fault(name, "must be a text");
    return value.get<std::string>();
}

Result<Batch> read_batch(Json body) {
    if (!body.is_object()) {
        return Fault{ErrorKind::bad_data, "the request must be a JSON object", "", "invalid_json"};
    }
    auto input = take_text(body, "input_file_id");
    if (!input) return input.fault();
    auto endpoint = take_text(body, "endpoint");
    if (!endpoint) return endpoint.fault();
    auto window = take_text(body, "completion_window");
    if (!window) return window.fault();
    auto metadata = read_metadata(body.value("metadata", Json()));
    if (!metadata) return metadata.fault();
    body.erase("metadata");
    if (!body.empty()) return field_fault(body.begin().key(), "is not known to batches");
    if (!is_endpoint(*endpoint)) {
        return field_fault("endpoint", fmt::format("must be one of {}", endpoint_names()));
    }
    const auto hours = hours_of(*window);
    if (!hours) return field_fault("completion_window", "must be a number of hours, as \"24h\"");
    Batch batch;
    batch.input_file_id = std::move(*input);
    batch.endpoint = std::move(*endpoint);
    batch.completion_window = std::move(*window);
    batch.metadata = std::move(*metadata);
    batch.expires_at = std::time(nullptr) + *hours * 3600;
    return batch;
}

HttpResponse create_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    auto body = read_body(request, context.config);
    if (!body) return fault_response(body.fault());
    auto batch = read_batch(std::move(*body));
    if (!batch) return fault_response(batch.fault());
    const std::string owner = owner_of(context, request);
    if (!context.batches->files().find(owner, batch->input_file_id)) {
        return fault_response(field_fault("input_file_id", "names no file that is here"));
    }
    const Batch added = context.batches->batches().add(owner, std::move(*batch));
    context.batches->tell();
    return typed_response(added);
}

HttpResponse list_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    return page_response<BatchPage>(context.batches->batches().list(owner_of(context, request)),
                                    request, kMaxBatchesOfPage, kBatchesOfPage);
}

HttpResponse batch_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    const std::string id = percent_decoded(request.path.substr(kPath.size()));
    const auto batch = context.batches->batches().find(owner_of(context, request), id);
    return batch ? typed_response(*batch) : no_such_batch(id);
}

HttpResponse cancel_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    std::string id = percent_decoded(request.path.substr(kPath.size()));
    if (!id.ends_with(kCancel)) {
        return error_response({.status = 404,
                               .message = "a batch is cancelled by POST /v1/batches/{id}/cancel",
                               .code = "not_found"});
    }
    id.resize(id.size() - kCancel.size());
    BatchStore& batches = context.batches->batches();
    const auto batch = batches.find(owner_of(context, request), id);
    if (!batch) return no_such_batch(id);
    bool is_too_late = false;
    const Batch changed = batches.change(id, [&](Batch& now) {
        is_too_late = now.has_ended() || now.status == "finalizing";
        if (is_too_late || now.status == "cancelling") return;
        now.status = "cancelling";
        now.cancelling_at = std::time(nullptr);
    });
    if (is_too_late) {
        return error_response({.status = 409,
                               .message = fmt::format("the batch is {}", changed.status),
                               .code = "batch_has_ended"});
    }
    context.batches->tell();
    return typed_response(changed);
}

schema::Json batch_content() {
    return media_content("application/json",
                         schema::object({{"input_file_id", schema::text()},
                                         {"endpoint", schema::text()},
                                         {"completion_window", schema::text()},
                                         {"metadata", schema::map_of(schema::text()), false}}));
}

schema::Json batch_types() { return named_schemas<Batch, BatchPage>(); }

}  // namespace

constinit const Route routes::create_batch = {
    .method = "POST",
    .path = "/v1/batches",
    .access = RouteAccess::user,
    .summary = "Computes the requests of a file when there is room.",
    .is_off_loop = true,
    .schema = {.response = json_content<Batch>, .other_body = batch_content, .types = batch_types},
    .handle = respond_at_once<create_response>};

constinit const Route routes::batches = {.method = "GET",
                                         .path = "/v1/batches",
                                         .access = RouteAccess::user,
                                         .summary = "The batches of the key, the newest first.",
                                         .is_off_loop = true,
                                         .schema = {.response = json_content<BatchPage>},
                                         .handle = respond_at_once<list_response>};

constinit const Route routes::batch = {.method = "GET",
                                       .path = "/v1/batches/*",
                                       .access = RouteAccess::user,
                                       .summary = "One of them.",
                                       .is_off_loop = true,
                                       .schema = {.response = json_content<Batch>},
                                       .handle = respond_at_once<batch_response>};

constinit const Route routes::cancel_batch = {
    .method = "POST",
    .path = "/v1/batches/*",
    .access = RouteAccess::user,
    .summary = "With /cancel behind its id: ends a batch; what is computed already is kept.",
    .is_off_loop = true,
    .schema = {.response = json_content<Batch>},
    .handle = respond_at_once<cancel_response>};

}  // namespace nvllm::server

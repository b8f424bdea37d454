// /v1/files: the inputs and outputs of batches.
#include <fmt/format.h>

#include <algorithm>

#include "lib/server/batches/batch_types.h"
#include "lib/server/http/multipart.h"
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/batches/batch_requests.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

constexpr size_t kMaxFilesOfPage = 10'000;
constexpr std::string_view kPath = "/v1/files/";
constexpr std::string_view kContent = "/content";

HttpResponse no_such_file(const std::string& id) {
    return error_response({.status = 404,
                           .message = fmt::format("there is no file '{}'", id.substr(0, 100)),
                           .code = "file_not_found",
                           .param = "file_id"});
}

Result<StoredFile> store(BatchService& batches, const std::string& owner,
                         const HttpRequest& request) {
    const std::string* type = request.header("Content-Type");
    const auto form = read_form(type == nullptr ? "" : *type, request.body);
    if (!form) return form.fault();
    const FormField* file = nullptr;
    std::string purpose;
    for (const FormField& field : *form) {
        if (field.name == "file") {
            file = &field;
        } else if (field.name == "purpose") {
            purpose = field.content;
        } else {
            return Fault{ErrorKind::bad_data,
                         fmt::format("'{}' is not known here: send 'file' and 'purpose'",
                                     field.name.substr(0, 100)),
                         field.name.substr(0, 100), "unsupported_parameter"};
        }
    }
    if (file == nullptr) return Fault{ErrorKind::bad_data, "'file' is missing", "file"};
    if (purpose.empty()) return Fault{ErrorKind::bad_data, "'purpose' is missing", "purpose"};
    return batches.files().add(owner, file->file_name, std::move(purpose), file->content);
}

HttpResponse upload_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    const auto stored = store(*context.batches, owner_of(context, request), request);
    return stored ? typed_response(*stored) : fault_response(stored.fault());
}

HttpResponse list_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    auto files = context.batches->files().list(owner_of(context, request));
    if (const auto purpose = request.query_value("purpose")) {
        std::erase_if(files, [&](const StoredFile& file) { return file.purpose != *purpose; });
    }
    return page_response<FilePage>(std::move(files), request, kMaxFilesOfPage);
}

// Also the content, whose path is below the file's.
HttpResponse file_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    std::string id = percent_decoded(request.path.substr(kPath.size()));
    const bool wants_content = id.ends_with(kContent);
    if (wants_content) id.resize(id.size() - kContent.size());
    FileStore& files = context.batches->files();
    const std::string owner = owner_of(context, request);
    if (!wants_content) {
        const auto file = files.find(owner, id);
        return file ? typed_response(*file) : no_such_file(id);
    }
    auto content = files.content(owner, id);
    if (!content) return no_such_file(id);
    HttpResponse response;
    response.content_type = "application/octet-stream";
    response.body = std::move(*content);
    return response;
}

HttpResponse removal_response(const RouteContext& context, const HttpRequest& request) {
    if (context.batches == nullptr) return batches_are_off();
    const std::string id = percent_decoded(request.path.substr(kPath.size()));
    if (!context.batches->files().remove(owner_of(context, request), id)) return no_such_file(id);
    RemovedFile removed;
    removed.id = id;
    return typed_response(removed);
}

schema::Json form_content() {
    schema::Json file = schema::text();
    file["format"] = "binary";
    return media_content("multipart/form-data",
                         schema::object({{"file", std::move(file)}, {"purpose", schema::text()}}));
}

schema::Json file_types() { return named_schemas<StoredFile, FilePage, RemovedFile>(); }

}  // namespace

constinit const Route routes::upload_file = {.method = "POST",
                                             .path = "/v1/files",
                                             .access = RouteAccess::user,
                                             .summary = "Takes a file, the input of a batch.",
                                             .is_off_loop = true,
                                             .schema = {.response = json_content<StoredFile>,
                                                        .other_body = form_content,
                                                        .types = file_types},
                                             .handle = respond_at_once<upload_response>};

constinit const Route routes::files = {
    .method = "GET",
    .path = "/v1/files",
    .access = RouteAccess::user,
    .summary = "The files of the key, the newest first.",
    .is_off_loop = true,
    .schema = {.response = json_content<FilePage>, .query_parameter = "purpose"},
    .handle = respond_at_once<list_response>};

constinit const Route routes::file = {
    .method = "GET",
    .path = "/v1/files/*",
    .access = RouteAccess::user,
    .summary = "One of them; with /content behind its id, what is in it.",
    .is_off_loop = true,
    .schema = {.response = json_content<StoredFile>},
    .handle = respond_at_once<file_response>};

constinit const Route routes::remove_file = {.method = "DELETE",
                                             .path = "/v1/files/*",
                                             .access = RouteAccess::user,
                                             .summary = "Removes a file.",
                                             .is_off_loop = true,
                                             .schema = {.response = json_content<RemovedFile>},
                                             .handle = respond_at_once<removal_response>};

}  // namespace nvllm::server

// Files and batches in the OpenAI API's shapes; batches are kept on disk in the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/openai/response_types.h"

namespace nvllm::server {

struct StoredFile {
    static constexpr const char* kName = "File";
    std::string id;  // "file-..."
    Constant<"file"> object;
    int64_t bytes = 0;
    int64_t created_at = 0;  // seconds since 1970, as all times here
    std::string filename;
    std::string purpose;  // "batch", "batch_output", or what else the client said
    Constant<"processed"> status;

    template <typename Visit>
    void fields(Visit& visit) const {
        each(*this, visit);
    }
    template <typename Self, typename Visit>
    static void each(Self& self, Visit& visit) {
        visit("id", self.id);
        visit("object", self.object);
        visit("bytes", self.bytes);
        visit("created_at", self.created_at);
        visit("filename", self.filename);
        visit("purpose", self.purpose);
        visit("status", self.status);
    }
};

// What is wrong with a line of the input.
struct BatchError {
    std::string code;
    std::string message;
    std::optional<std::string> param;
    std::optional<int64_t> line;  // from 1

    template <typename Visit>
    void fields(Visit& visit) const {
        each(*this, visit);
    }
    template <typename Self, typename Visit>
    static void each(Self& self, Visit& visit) {
        visit("code", self.code);
        visit("message", self.message);
        visit("param", self.param);
        visit("line", self.line);
    }
};

struct BatchErrors {
    Constant<"list"> object;
    std::vector<BatchError> data;

    template <typename Visit>
    void fields(Visit& visit) const {
        each(*this, visit);
    }
    template <typename Self, typename Visit>
    static void each(Self& self, Visit& visit) {
        visit("object", self.object);
        visit("data", self.data);
    }
};

struct BatchCounts {
    int64_t total = 0;
    int64_t completed = 0;
    int64_t failed = 0;

    template <typename Visit>
    void fields(Visit& visit) const {
        each(*this, visit);
    }
    template <typename Self, typename Visit>
    static void each(Self& self, Visit& visit) {
        visit("total", self.total);
        visit("completed", self.completed);
        visit("failed", self.failed);
    }
};

struct Batch {
    static constexpr const char* kName = "Batch";
    std::string id;  // "batch_..."
    Constant<"batch"> object;
    std::string endpoint;
    std::optional<BatchErrors> errors;
    std::string input_file_id;
    std::string completion_window;
    // validating, in_progress, finalizing, completed, failed, expired, cancelling, cancelled
    std::string status;
    std::optional<std::string> output_file_id;
    std::optional<std::string> error_file_id;
    int64_t created_at = 0;
    std::optional<int64_t> in_progress_at;
    std::optional<int64_t> expires_at;
    std::optional<int64_t> finalizing_at;
    std::optional<int64_t> completed_at;
    std::optional<int64_t> failed_at;
    std::optional<int64_t> expired_at;
    std::optional<int64_t> cancelling_at;
    std::optional<int64_t> cancelled_at;
    BatchCounts request_counts;
    std::optional<Keyed<std::string>> metadata;

    // Nothing more will become of it.
    bool has_ended() const {
        return status == "completed" || status == "failed" || status == "expired" ||
               status == "cancelled";
    }

    template <typename Visit>
    void fields(Visit& visit) const {
        each(*this, visit);
    }
    template <typename Self, typename Visit>
    static void each(Self& self, Visit& visit) {
        visit("id", self.id);
        visit("object", self.object);
        visit("endpoint", self.endpoint);
        visit("errors", self.errors);
        visit("input_file_id", self.input_file_id);
        visit("completion_window", self.completion_window);
        visit("status", self.status);
        visit("output_file_id", self.output_file_id);
        visit("error_file_id", self.error_file_id);
        visit("created_at", self.created_at);
        visit("in_progress_at", self.in_progress_at);
        visit("expires_at", self.expires_at);
        visit("finalizing_at", self.finalizing_at);
        visit("completed_at", self.completed_at);
        visit("failed_at", self.failed_at);
        visit("expired_at", self.expired_at);
        visit("cancelling_at", self.cancelling_at);
        visit("cancelled_at", self.cancelled_at);
        visit("request_counts", self.request_counts);
        visit("metadata", self.metadata);
    }
};

// Some of the objects that there are, newest first.
template <typename Item>
struct Page {
    Constant<"list"> object;
    std::vector<Item> data;
    bool has_more = false;

    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", object);
        visit("data", data);
        visit("has_more", has_more);
    }
};
struct FilePage : Page<StoredFile> {
    static constexpr const char* kName = "FileList";
};
struct BatchPage : Page<Batch> {
    static constexpr const char* kName = "BatchList";
};

struct RemovedFile {
    static constexpr const char* kName = "RemovedFile";
    std::string id;
    Constant<"file"> object;
    bool deleted = true;

    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("object", object);
        visit("deleted", deleted);
    }
};

}  // namespace nvllm::server

// Reading the fields of requests that compare or classify texts.
#include "lib/server/openai/score_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kFirstNames = {"text_1", "queries", "data_1"};
constexpr std::array<const char*, 3> kSecondNames = {"text_2", "documents", "data_2"};

// Reads fields until one is at fault; what follows is left as it is.
class FieldReader {
  public:
    explicit FieldReader(const Json& body) : body_(body) {}

    void boolean(const char* name, bool& value) {
        const Json* given = find(name);
        if (given == nullptr) return;
        if (!given->is_boolean()) return keep(field_fault(name, "must be true or false"));
        value = given->get<bool>();
    }
    template <typename Number>
    void integer(const char* name, int64_t min, int64_t max, Number& value) {
        const Json* given = find(name);
        if (given == nullptr) return;
        const bool is_whole = given->is_number_integer() && *given >= min && *given <= max;
        if (!is_whole) return keep(field_fault(name, range_complaint(min)));
        value = given->get<int32_t>();
    }
    void text(const char* name, std::string& value) {
        const Json* given = find(name);
        if (given == nullptr) return;
        if (!given->is_string()) return keep(field_fault(name, "must be a string"));
        value = given->get<std::string>();
    }
    // A text, an object with one, or where `takes_several` a list of either.
    void texts(const char* name, bool takes_several, const RequestLimits& limits,
               std::vector<std::string>& values) {
        const Json* given = find(name);
        if (given == nullptr || fault_) return;
        if (!given->is_array()) return add_text(name, *given, takes_several, values);
        if (!takes_several) return keep(field_fault(name, "must be a text"));
        const auto most = static_cast<size_t>(limits.max_prompts);
        if (given->empty() || given->size() > most) {
            return keep(field_fault(
                name, fmt::format("has {} texts; it must have 1 to {}", given->size(), most)));
        }
        for (const Json& each : *given) add_text(name, each, true, values);
    }

    // Null when it is absent or null.
    const Json* find(const char* name) const {
        const auto found = body_.find(name);
        return found == body_.end() || found->is_null() ? nullptr : &*found;
    }
    void keep(Fault fault) {
        if (!fault_) fault_ = std::move(fault);
    }
    const std::optional<Fault>& fault() const { return fault_; }

  private:
    static std::string range_complaint(int64_t min) {
        return fmt::format("must be an integer of at least {}", min);
    }
    void add_text(const char* name, const Json& value, bool takes_several,
                  std::vector<std::string>& values) {
        const Json* text = &value;
        if (value.is_object() && value.contains("text")) text = &value.at("text");
        if (text->is_string()) {
            values.push_back(text->get<std::string>());
        } else {
            keep(field_fault(name, takes_several ? "must be a text, {\"text\": ...}, or a list of "
                                                   "either; only texts are compared here"
                                                 : "must be a text or {\"text\": ...}"));
        }
    }

    const Json& body_;
    std::optional<Fault> fault_;
};

// What all of these requests have.
void read_activation(FieldReader& fields, bool& uses_activation) {
    fields.boolean("activation", uses_activation);
    fields.boolean("use_activation", uses_activation);
}

void read_common(FieldReader& fields, ScoreRequest& request) {
    fields.text("model", request.model);
    fields.text("instruction", request.instruction);
    fields.text("cache_salt", request.cache_salt);
    fields.integer("priority", INT32_MIN, INT32_MAX, request.priority);
    fields.integer("max_tokens_per_doc", 1, INT32_MAX, request.max_second_tokens);
    fields.integer("truncate_prompt_tokens", -1, INT32_MAX, request.truncate_prompt_tokens);
    read_activation(fields, request.uses_activation);
}

// The texts of the one name that is used.
void read_named(FieldReader& fields, const std::array<const char*, 3>& names,
                const RequestLimits& limits, std::vector<std::string>& texts) {
    const char* used = nullptr;
    for (const char* name : names) {
        if (fields.find(name) == nullptr) continue;
        if (used != nullptr) {
            return fields.keep(
                field_fault(name, fmt::format("is another name of '{}': give one of them", used)));
        }
        used = name;
        fields.texts(name, true, limits, texts);
    }
    if (used == nullptr) {
        fields.keep(field_fault(
            names[0], fmt::format("is missing (also named '{}' or '{}')", names[1], names[2])));
    }
}

}  // namespace

Result<ScoreRequest> read_score_request(Json body, const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::score, limits.is_strict);
    if (!ignored) return ignored.fault();
    ScoreRequest request;
    request.ignored = std::move(*ignored);
    FieldReader fields(body);
    read_common(fields, request);
    read_named(fields, kFirstNames, limits, request.firsts);
    read_named(fields, kSecondNames, limits, request.seconds);
    if (fields.fault()) return *fields.fault();
    if (request.firsts.size() == 1 || request.firsts.size() == request.seconds.size()) {
        return request;
    }
    return field_fault(kFirstNames[0],
                       fmt::format("has {} texts and '{}' has {}: give one first text, or as many "
                                   "as there are second ones",
                                   request.firsts.size(), kSecondNames[0], request.seconds.size()));
}

Result<RerankRequest> read_rerank_request(Json body, const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::rerank, limits.is_strict);
    if (!ignored) return ignored.fault();
    RerankRequest request;
    request.texts.ignored = std::move(*ignored);
    FieldReader fields(body);
    read_common(fields, request.texts);
    std::optional<int32_t> top_n;
    fields.integer("top_n", 0, INT32_MAX, top_n);
    fields.boolean("return_documents", request.return_documents);
    for (const char* name : {"query", "documents"}) {
        if (fields.find(name) == nullptr) fields.keep(field_fault(name, "is missing"));
    }
    fields.texts("query", false, limits, request.texts.firsts);
    const Json* documents = fields.find("documents");
    if (documents != nullptr && !documents->is_array()) {
        fields.keep(field_fault("documents", "must be a list of texts"));
    }
    fields.texts("documents", true, limits, request.texts.seconds);
    if (fields.fault()) return *fields.fault();
    const size_t all = request.texts.seconds.size();
    request.top_n = top_n.value_or(0) == 0 ? all : std::min(all, static_cast<size_t>(*top_n));
    return request;
}

Result<ClassifyRequest> read_classify_request(Json body, const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::classify, limits.is_strict);
    if (!ignored) return ignored.fault();
    ClassifyRequest request;
    request.ignored = std::move(*ignored);
    FieldReader fields(body);
    RequestInput common;
    fields.text("model", request.model);
    fields.integer("priority", INT32_MIN, INT32_MAX, common.priority);
    fields.integer("truncate_prompt_tokens", -1, INT32_MAX, common.truncate_prompt_tokens);
    read_activation(fields, request.uses_activation);
    if (fields.fault()) return *fields.fault();
    auto texts = split_prompts(body.value("input", Json()), "input", limits);
    if (!texts) return texts.fault();
    for (const Json& text : *texts) {
        RequestInput& input = request.inputs.emplace_back(common);
        std::string as_given;
        if (auto fault = set_prompt(text, "input", input, as_given)) return *fault;
    }
    return request;
}

}  // namespace nvllm::server

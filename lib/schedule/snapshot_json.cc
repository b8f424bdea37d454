// Writes and reads the fields of snapshot_fields.h; what fields must say together is in
// snapshot_checks.cc.
#include "lib/schedule/snapshot_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/schedule/snapshot_checks.h"
#include "lib/schedule/snapshot_fields.h"

namespace nvllm {
namespace {

using Ordered = nlohmann::ordered_json;
using Json = nlohmann::json;

// One letter a block: a cache has a hundred thousand of them.
constexpr std::string_view kStateLetters = "fcup";

struct Writer {
    Ordered object = Ordered::object();

    template <typename T>
    void operator()(const char* name, T& value) {
        object[name] = written(value);
    }

    template <typename T>
    requires std::is_aggregate_v<T>
    static Ordered written(T& value) {
        Writer inner;
        fields(inner, value);
        return std::move(inner.object);
    }
    template <typename T>
    requires std::is_arithmetic_v<T>
    static Ordered written(T value) { return value; }
    static Ordered written(const std::string& value) { return value; }
    static Ordered written(SequenceState value) { return sequence_state_name(value); }
    static Ordered written(WaitReason value) { return wait_reason_name(value); }
    static Ordered written(AdapterTier value) { return adapter_tier_name(value); }
    static Ordered written(std::vector<BlockState>& states) {
        std::string letters;
        for (const BlockState state : states) letters += kStateLetters[static_cast<size_t>(state)];
        return letters;
    }
    template <typename T>
    static Ordered written(const std::optional<T>& value) {
        return value ? Ordered(*value) : Ordered(nullptr);
    }
    template <typename T>
    static Ordered written(std::vector<T>& values) {
        Ordered array = Ordered::array();
        for (T& value : values) array.push_back(written(value));
        return array;
    }
};

class Reader {
  public:
    Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
        if (!json.is_object()) fail(path_, "is not an object");
    }

    template <typename T>
    void operator()(const char* name, T& value) {
        const std::string path = path_.empty() ? name : path_ + "." + name;
        const auto found = json_.find(name);
        if (found == json_.end()) fail(path, "is missing");
        ++num_read_;
        read(*found, path, value);
    }

    // Everything that is there was asked for. REQUIRES: each field was read once.
    void finish(size_t num_others = 0) const {
        if (json_.size() == num_read_ + num_others) return;
        fail(path_.empty() ? "the snapshot" : path_, "has a field that does not belong there");
    }

    [[noreturn]] static void fail(const std::string& path, const std::string& what) {
        throw Error(ErrorKind::bad_data, path + " " + what);
    }

  private:
    template <typename T>
    requires std::is_aggregate_v<T>
    static void read(const Json& json, const std::string& path, T& value) {
        Reader inner(json, path);
        fields(inner, value);
        inner.finish();
    }
    // Only a priority may be below zero.
    template <std::integral T>
    static void read(const Json& json, const std::string& path, T& value) {
        const bool may_be_negative = path.ends_with(".priority");
        if (!json.is_number_integer()) fail(path, "is not a whole number");
        const bool fits = json.is_number_unsigned()
                              ? std::in_range<T>(json.get<uint64_t>())
                              : may_be_negative && std::in_range<T>(json.get<int64_t>());
        if (!fits) fail(path, "is out of range");
        value = json.get<T>();
    }
    static void read(const Json& json, const std::string& path, bool& value) {
        if (!json.is_boolean()) fail(path, "is neither true nor false");
        value = json.get<bool>();
    }
    static void read(const Json& json, const std::string& path, double& value) {
        if (!json.is_number()) fail(path, "is not a number");
        value = json.get<double>();
        if (!std::isfinite(value) || std::abs(value) > 1e15) fail(path, "is out of range");
    }
    static void read(const Json& json, const std::string& path, std::string& value) {
        if (!json.is_string()) fail(path, "is not a text");
        value = json.get<std::string>();
        if (value.size() > 4096) fail(path, "is longer than 4096 bytes");
    }
    template <typename Enum>
    static void read_name(const Json& json, const std::string& path, Enum& value, Enum last,
                          const char* (*name)(Enum)) {
        if (!json.is_string()) fail(path, "is not a text");
        for (int i = 0; i <= static_cast<int>(last); ++i) {
            if (json.get_ref<const std::string&>() != name(static_cast<Enum>(i))) continue;
            value = static_cast<Enum>(i);
            return;
        }
        fail(path, "is " + write_json(json) + ", which is not one of its words");
    }
    static void read(const Json& json, const std::string& path, SequenceState& value) {
        read_name(json, path, value, SequenceState::finished, &sequence_state_name);
    }
    static void read(const Json& json, const std::string& path, WaitReason& value) {
        read_name(json, path, value, WaitReason::adapter, &wait_reason_name);
    }
    static void read(const Json& json, const std::string& path, AdapterTier& value) {
        read_name(json, path, value, AdapterTier::failed, &adapter_tier_name);
    }
    static void read(const Json& json, const std::string& path, std::vector<BlockState>& value) {
        if (!json.is_string()) fail(path, "is not a text");
        for (const char letter : json.get_ref<const std::string&>()) {
            const size_t state = kStateLetters.find(letter);
            if (state == std::string_view::npos) fail(path, "has a letter other than f, c, u, p");
            value.push_back(static_cast<BlockState>(state));
        }
    }
    template <typename T>
    static void read(const Json& json, const std::string& path, std::optional<T>& value) {
        if (json.is_null()) return;
        read(json, path, value.emplace());
    }
    template <typename T>
    static void read(const Json& json, const std::string& path, std::vector<T>& value) {
        if (!json.is_array()) fail(path, "is not an array");
        for (size_t i = 0; i < json.size(); ++i) {
            read(json[i], fmt::format("{}[{}]", path, i), value.emplace_back());
        }
    }

    const Json& json_;
    std::string path_;
    size_t num_read_ = 0;
};

void check_schema(const Json& json) {
    if (!json.is_object()) Reader::fail("the snapshot", "is not an object");
    const auto schema = json.find("schema");
    if (schema != json.end() && *schema == kSnapshotSchema) return;
    Reader::fail("schema",
                 schema == json.end()
                     ? fmt::format("is missing; this reads {}", kSnapshotSchema)
                     : fmt::format("is {}; this reads {}", write_json(*schema), kSnapshotSchema));
}

}  // namespace

std::string snapshot_to_json(const Snapshot& snapshot) {
    Ordered json = {{"schema", kSnapshotSchema}};
    // The field list is shared with reading, which changes what it visits.
    json.update(Writer::written(const_cast<Snapshot&>(snapshot)));
    return write_json(json);
}

Snapshot snapshot_from_json(std::string_view text, std::string_view source_name) {
    const Json json = parse_json(text, source_name, {.max_depth = 16});
    try {
        check_schema(json);
        Snapshot snapshot;
        Reader reader(json, "");
        fields(reader, snapshot);
        reader.finish(1);
        check_snapshot(snapshot);
        return snapshot;
    } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("{}: {}", source_name, error.what()));
    }
}

}  // namespace nvllm

// Typed and bounded reads of a config file's JSON object: every fault names the file, the key, the
// value and the limit.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/unused_keys.h"

namespace nvllm {

// What to do with a value of another type or outside its limits.
enum class BadValues : uint8_t { refused, absent };

// A view of one JSON object; the object must outlive it. Keys that are absent or null read as
// empty. Copies share the record of what was asked for; views of inner objects have their own.
class ConfigFields {
  public:
    // Throws bad_data when `object` is not an object.
    ConfigFields(const nlohmann::json& object, std::string file_name,
                 BadValues bad_values = BadValues::refused);

    const std::string& file_name() const { return file_name_; }
    const nlohmann::json& json() const { return object_; }

    // The value of the key; null when the key is absent or its value is null.
    const nlohmann::json* find(const char* key) const;
    bool has(const char* key) const { return find(key) != nullptr; }

    // Throw bad_data when the key is there with another type or outside [low, high], or read it as
    // empty, as BadValues says.
    std::optional<int64_t> integer(const char* key, int64_t low, int64_t high) const;
    std::optional<double> number(const char* key, double low, double high) const;
    std::optional<bool> boolean(const char* key) const;
    std::optional<std::string> text(const char* key) const;
    std::optional<std::vector<double>> numbers(const char* key, double low, double high) const;
    std::optional<std::vector<std::string>> texts(const char* key) const;
    std::optional<ConfigFields> object(const char* key) const;
    // One whole number or a list of them, of any size that JSON can hold; at most 4096.
    std::vector<int64_t> integers(const char* key) const;

    BadValues bad_values() const { return bad_values_; }

    // The keys that were asked for so far, by this view and its copies.
    const KeySet& asked() const { return *asked_; }

    // Throws bad_data: "FILE: "KEY" is VALUE; WHAT".
    [[noreturn]] void refuse(const char* key, const std::string& what) const;

  private:
    // Returns when bad values are absent ones.
    void reject(const char* key, const std::string& what) const;

    const nlohmann::json& object_;
    std::string file_name_;
    BadValues bad_values_;
    std::shared_ptr<KeySet> asked_ = std::make_shared<KeySet>();
};

}  // namespace nvllm

// Messages with something random in every field, whatever fields there are.
#pragma once

#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/execute/wire_fields.h"

namespace nvllm::test {

class RandomFields {
  public:
    explicit RandomFields(uint64_t seed) : generator_(seed) {}

    template <typename Message>
    Message message() {
        Message made;
        fill(made);
        return made;
    }

    template <typename... Members>
    void operator()(Members&... members) {
        (fill(members), ...);
    }

  private:
    uint64_t draw(uint64_t below) { return generator_() % below; }

    template <typename T>
    requires std::is_integral_v<T>
    void fill(T& value) { value = static_cast<T>(draw(4) == 0 ? generator_() : draw(100)); }
    template <typename T>
    requires std::is_floating_point_v<T>
    void fill(T& value) { value = static_cast<T>(generator_()) / T{3}; }
    void fill(bool& value) { value = draw(2) == 1; }
    template <typename T>
    requires std::is_enum_v<T>
    void fill(T& value) {
        value = static_cast<T>(draw(static_cast<uint64_t>(last_value(T{})) + 1));
    }
    void fill(std::string& text) {
        text.resize(draw(20));
        for (char& letter : text) letter = static_cast<char>(draw(256));
    }
    void fill(std::filesystem::path& path) { path = "folder/" + std::to_string(draw(1000)); }
    template <typename T>
    void fill(std::optional<T>& value) {
        if (draw(2) == 1) fill(value.emplace());
    }
    template <typename T, typename U>
    void fill(std::pair<T, U>& pair) {
        fill(pair.first);
        fill(pair.second);
    }
    template <typename T, size_t N>
    void fill(std::array<T, N>& values) {
        for (T& value : values) fill(value);
    }
    template <typename T>
    void fill(std::vector<T>& values) {
        values.resize(draw(5));
        for (T& value : values) fill(value);
    }
    template <typename T>
    requires std::is_aggregate_v<T>
    void fill(T& record) { fields(*this, record); }

    std::mt19937_64 generator_;
};

}  // namespace nvllm::test

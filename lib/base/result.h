// A value, or the reason why there is none: for faults that end one request and nothing else.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "kernels/error.h"

namespace nvllm {

struct Fault {
    ErrorKind kind = ErrorKind::bad_data;
    std::string message;
    std::string field = {};  // of a request, that is wrong: "top_p", "messages[3].content"
    std::string code = {};   // what programs look at: "context_length_exceeded"
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::move(value)) {}      // NOLINT: meant to be implicit
    Result(Fault fault) : state_(std::move(fault)) {}  // NOLINT: meant to be implicit

    bool ok() const { return std::holds_alternative<T>(state_); }
    explicit operator bool() const { return ok(); }

    // REQUIRES: ok().
    T& value() { return std::get<T>(state_); }
    const T& value() const { return std::get<T>(state_); }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    // REQUIRES: !ok().
    const Fault& fault() const { return std::get<Fault>(state_); }

    // The value, or the fault thrown as Error: for programs that have only one request.
    T& value_or_throw() {
        if (!ok()) throw Error(fault().kind, fault().message);
        return value();
    }

  private:
    std::variant<T, Fault> state_;
};

}  // namespace nvllm

// What an action throws, in words.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "kernels/error.h"

namespace nvllm::test {

// The message of the Error that `action` throws, after its kind was checked.
template <typename Action>
std::string error_of(ErrorKind kind, Action action) {
    try {
        action();
    } catch (const Error& error) {
        CHECK(error.kind() == kind);
        return error.what();
    }
    FAIL_CHECK("nothing was thrown");
    return "";
}

}  // namespace nvllm::test

// The one table that maps kinds of error to exit codes (sysexits.h) and HTTP statuses.
#pragma once

#include <span>

#include "kernels/error.h"

namespace nvllm {

struct ErrorKindRow {
    ErrorKind kind;
    const char* name;
    int exit_code;
    int http_status;
    const char* meaning;  // of the exit code, for people
};

std::span<const ErrorKindRow> error_kind_rows();

const ErrorKindRow& error_kind_row(ErrorKind kind);

inline int exit_code_for(ErrorKind kind) { return error_kind_row(kind).exit_code; }

}  // namespace nvllm

// Exit codes and HTTP statuses of each kind of error.
#include "lib/base/error_kinds.h"

#include <array>

namespace nvllm {
namespace {

constexpr std::array<ErrorKindRow, 10> kRows = {{
    {ErrorKind::usage, "usage", 64, 400},
    {ErrorKind::bad_data, "bad_data", 65, 400},
    {ErrorKind::not_found, "not_found", 66, 404},
    {ErrorKind::unavailable, "unavailable", 69, 503},
    {ErrorKind::internal, "internal", 70, 500},
    {ErrorKind::cannot_create, "cannot_create", 73, 500},
    {ErrorKind::io, "io", 74, 500},
    {ErrorKind::try_again, "try_again", 75, 503},
    {ErrorKind::does_not_fit, "does_not_fit", 77, 400},
    {ErrorKind::bad_config, "bad_config", 78, 400},
}};

}  // namespace

const ErrorKindRow& error_kind_row(ErrorKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace nvllm

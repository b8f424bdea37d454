// Exit codes and HTTP statuses of each kind of error.
#include "lib/base/error_kinds.h"

#include <array>

namespace nvllm {
namespace {

constexpr std::array<ErrorKindRow, 10> kRows = {{
    {ErrorKind::usage, "usage", 64, 400, "Wrong flags."},
    {ErrorKind::bad_data, "bad_data", 65, 400,
     "Bad data: a broken file, a prompt that is too long."},
    {ErrorKind::not_found, "not_found", 66, 404, "No such model or file."},
    {ErrorKind::unavailable, "unavailable", 69, 503,
     "A device, an address or a server that is not there."},
    {ErrorKind::internal, "internal", 70, 500, "A mistake of the program."},
    {ErrorKind::cannot_create, "cannot_create", 73, 500, "An output that cannot be made."},
    {ErrorKind::io, "io", 74, 500, "Reading or writing failed."},
    {ErrorKind::try_again, "try_again", 75, 503, "Something was busy: the same may work later."},
    {ErrorKind::does_not_fit, "does_not_fit", 77, 400, "Too little memory."},
    {ErrorKind::bad_config, "bad_config", 78, 400,
     "A wrong setting in a file or in the environment."},
}};

}  // namespace

std::span<const ErrorKindRow> error_kind_rows() { return kRows; }

const ErrorKindRow& error_kind_row(ErrorKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace nvllm

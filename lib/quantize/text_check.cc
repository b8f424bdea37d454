// The first bytes of formats that data sets come in.
#include "lib/quantize/text_check.h"

#include <fmt/format.h>

#include <array>

#include "kernels/error.h"

namespace nvllm::quantize {
namespace {

using namespace std::string_view_literals;

constexpr const char* kExport =
    "write its texts as JSON lines, in Python: datasets.load_dataset(...).to_json(\"texts.jsonl\")";
constexpr const char* kUnpack = "unpack it first";
constexpr const char* kAsText = "write its texts to a text file or as JSON lines";

struct Format {
    std::string_view begins;
    const char* name;
    const char* remedy;
};
constexpr auto kFormats = std::to_array<Format>({
    {"PAR1"sv, "Parquet", kExport},
    {"ARROW1"sv, "Arrow", kExport},
    {"\xff\xff\xff\xff"sv, "an Arrow stream", kExport},
    {"\x1f\x8b"sv, "compressed (gzip)", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "compressed (zstd)", kUnpack},
    {"\xfd\x37zXZ\0"sv, "compressed (xz)", kUnpack},
    {"BZh"sv, "compressed (bzip2)", kUnpack},
    {"\x04\x22\x4d\x18"sv, "compressed (lz4)", kUnpack},
    {"PK\x03\x04"sv, "a zip archive", kUnpack},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {"%PDF-"sv, "PDF", kAsText},
    {"SQLite format 3\0"sv, "an SQLite database", kAsText},
    {"\x89HDF\r\n"sv, "HDF5", kAsText},
    {"\x93NUMPY"sv, "a NumPy array", kAsText},
    {"GGUF"sv, "GGUF", "models are named with -m"},
    {"\xff\xfe"sv, "text in UTF-16", "write it in UTF-8"},
    {"\xfe\xff"sv, "text in UTF-16", "write it in UTF-8"},
});

[[noreturn]] void refuse(const std::string& name, const char* format, const char* remedy) {
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: is {}; calibration reads text, JSON lines and lists: {}", name,
                            format, remedy));
}

}  // namespace

void refuse_other_than_text(std::string_view content, const std::string& name) {
    for (const Format& format : kFormats) {
        if (content.starts_with(format.begins)) refuse(name, format.name, format.remedy);
    }
    constexpr size_t kTarMagic = 257;
    if (content.size() > kTarMagic && content.substr(kTarMagic).starts_with("ustar")) {
        refuse(name, "a tar archive", kUnpack);
    }
    if (content.find('\0') != std::string_view::npos) refuse(name, "no text", kAsText);
}

}  // namespace nvllm::quantize

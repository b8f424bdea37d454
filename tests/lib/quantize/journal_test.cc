// What a run keeps, whose it is, and how its output appears.
#include "lib/quantize/journal.h"

#include <doctest/doctest.h>

#include "lib/base/file.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm::quantize {
namespace {

TEST_CASE("an output appears whole, and nothing else stays") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    const Journal journal(output, "a run\n", false);
    CHECK_FALSE(journal.has_block(0));
    write_file(journal.block_file(0), "done");
    CHECK(journal.has_block(0));
    write_file(journal.fresh_output_folder() / "config.json", "{}");
    CHECK_FALSE(std::filesystem::exists(output));
    journal.publish();
    CHECK(read_file(output / "config.json") == "{}");
    CHECK_FALSE(std::filesystem::exists(journal.folder()));
}

TEST_CASE("a run goes on only when it is asked to, and only the same one") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    {
        const Journal journal(output, "a run\n", false);
        write_file(journal.block_file(2), "done");
        write_file(journal.folder() / "block.part", "half");
    }
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              Journal(output, "a run\n", false);
          }).find("--resume") != std::string::npos);
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              Journal(output, "another\n", true);
          }).find("another model, recipe") != std::string::npos);
    const Journal journal(output, "a run\n", true);
    CHECK(journal.has_block(2));
    CHECK_FALSE(std::filesystem::exists(journal.folder() / "block.part"));
}

TEST_CASE("an output that is there is not touched") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    std::filesystem::create_directory(output);
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              Journal(output, "a run\n", true);
          }).find("exists already") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(output.string() + ".partial"));
}

TEST_CASE("a slash behind the output's name changes nothing") {
    const test::Folder folder;
    const Journal journal(folder.path() / "out" / "", "a run\n", false);
    CHECK(journal.folder() == folder.path() / "out.partial");
}

}  // namespace
}  // namespace nvllm::quantize

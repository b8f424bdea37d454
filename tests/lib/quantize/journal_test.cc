// What a run keeps, whose it is, and how its output appears.
#include "lib/quantize/journal.h"

#include <doctest/doctest.h>

#include <optional>

#include "lib/base/file.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm::quantize {
namespace {

constexpr const char* kRun = "{\"recipe\": {\"bits\": 4}, \"seed\": 1}\n";
constexpr const char* kAnother = "{\"recipe\": {\"bits\": 8}, \"version\": \"2\"}\n";

TEST_CASE("an output appears whole, and nothing else stays") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    const Journal journal(output, kRun, InterruptedRun::refused);
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
        const Journal journal(output, kRun, InterruptedRun::refused);
        write_file(journal.block_file(2), "done");
        write_file(journal.folder() / "block.part", "half");
    }
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              Journal(output, kRun, InterruptedRun::refused);
          }).find("--resume") != std::string::npos);
    const std::string said = test::error_of(
        ErrorKind::bad_data, [&] { Journal(output, kAnother, InterruptedRun::resumed); });
    CHECK(said.find("recipe/bits was 4 and is 8 now") != std::string::npos);
    CHECK(said.find("seed was 1") != std::string::npos);
    CHECK(said.find("version is \"2\" now") != std::string::npos);
    CHECK(said.find("--restart") != std::string::npos);
    const Journal journal(output, kRun, InterruptedRun::resumed);
    CHECK(journal.has_block(2));
    CHECK_FALSE(std::filesystem::exists(journal.folder() / "block.part"));
}

TEST_CASE("a run that was ended after its output had appeared is finished") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    {
        const Journal journal(output, kRun, InterruptedRun::refused);
        write_file(journal.block_file(0), "done");
        journal.fresh_output_folder();
        CHECK_FALSE(Journal::finish_published(output, kRun));
        // As publish() does, up to its rename.
        write_file(journal.folder() / "published", "");
        CHECK_FALSE(Journal::finish_published(output, kRun));
        std::filesystem::rename(journal.folder() / "output", output);
    }
    CHECK_FALSE(Journal::finish_published(output, kAnother));
    CHECK(Journal::finish_published(output, kRun));
    CHECK(std::filesystem::exists(output));
    CHECK_FALSE(std::filesystem::exists(output.string() + ".partial"));
}

TEST_CASE("a folder that came from elsewhere is not taken for the output of an interrupted run") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    {
        const Journal journal(output, kRun, InterruptedRun::refused);
        write_file(journal.block_file(0), "done");
    }
    std::filesystem::create_directory(output);
    CHECK_FALSE(Journal::finish_published(output, kRun));
    CHECK(std::filesystem::exists(output.string() + ".partial/block-00000.safetensors"));
}

TEST_CASE("what lies where work would be kept stays") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    const auto refused = [&] {
        return test::error_of(ErrorKind::cannot_create,
                              [&] { Journal(output, kRun, InterruptedRun::resumed); });
    };
    const auto other = folder.path() / "out.partial";
    write_file(other, "a file");
    CHECK(refused().find("is in the way") != std::string::npos);
    std::filesystem::remove(other);
    std::filesystem::create_directory(other);
    write_file(other / "model.safetensors", "somebody's");
    refused();
    CHECK(read_file(other / "model.safetensors") == "somebody's");
    CHECK_FALSE(std::filesystem::exists(other / "run.json"));
    std::filesystem::remove_all(other);
    std::filesystem::create_directory_symlink(folder.path(), other);
    refused();
    std::filesystem::remove(other);
    std::filesystem::create_symlink("nowhere", output);
    CHECK(refused().find("exists already") != std::string::npos);
}

TEST_CASE("what was kept is thrown away when that is asked for") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    write_file(Journal(output, kRun, InterruptedRun::discarded).block_file(0), "done");
    const auto run_file = folder.path() / "out.partial" / "run.json";
    {
        const Journal journal(output, kAnother, InterruptedRun::discarded);
        CHECK_FALSE(journal.has_block(0));
        CHECK(read_file(run_file) == kAnother);
    }
    write_file(run_file, "{damaged");
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              Journal(output, kRun, InterruptedRun::resumed);
          }).find("run.json") != std::string::npos);
}

TEST_CASE("two runs do not work on one output") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    std::optional<Journal> journal(std::in_place, output, kRun, InterruptedRun::refused);
    write_file(journal->block_file(0), "done");
    for (const auto interrupted :
         {InterruptedRun::refused, InterruptedRun::resumed, InterruptedRun::discarded}) {
        const std::string said =
            test::error_of(ErrorKind::cannot_create, [&] { Journal(output, kRun, interrupted); });
        CHECK(said.find("another run is at work") != std::string::npos);
    }
    CHECK(journal->has_block(0));
    journal.reset();
    journal.emplace(output, kRun, InterruptedRun::discarded);
    CHECK_FALSE(journal->has_block(0));
    // What was locked is what is there: not a folder that was removed and made anew.
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              Journal(output, kRun, InterruptedRun::resumed);
          }).find("at work") != std::string::npos);
}

TEST_CASE("an output that is there is not touched") {
    const test::Folder folder;
    const auto output = folder.path() / "out";
    std::filesystem::create_directory(output);
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              Journal(output, kRun, InterruptedRun::resumed);
          }).find("exists already") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(output.string() + ".partial"));
}

TEST_CASE("a slash behind the output's name changes nothing") {
    const test::Folder folder;
    const Journal journal(folder.path() / "out" / "", kRun, InterruptedRun::refused);
    CHECK(journal.folder() == folder.path() / "out.partial");
}

}  // namespace
}  // namespace nvllm::quantize

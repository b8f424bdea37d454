// Files that appear whole or not at all, whatever fails on the way.
#include "lib/base/file.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include "lib/base/fault_points.h"
#include "tests/error_of.h"

using namespace nvllm;

namespace {

namespace fs = std::filesystem;

class FileTest {
  public:
    FileTest() {
        std::string name = (fs::temp_directory_path() / "nvllm.XXXXXX").string();
        folder = ::mkdtemp(name.data());
    }
    ~FileTest() {
        set_fault_points("");
        fs::remove_all(folder);
    }

    size_t num_entries() const {
        return static_cast<size_t>(
            std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    }

    fs::path folder;
};

}  // namespace

TEST_CASE_FIXTURE(FileTest, "a new file appears when it is published, in place of the old one") {
    const fs::path path = folder / "file";
    write_file(path, "old");
    {
        NewFile file(path);
        file.write("new", 3);
        CHECK(read_file(path) == "old");
    }
    CHECK(read_file(path) == "old");
    CHECK(num_entries() == 1);
    write_new_file(path, "new");
    CHECK(read_file(path) == "new");
    copy_to_new_file(path, folder / "copy");
    CHECK(read_file(folder / "copy") == "new");
    CHECK(num_entries() == 2);
}

TEST_CASE_FIXTURE(FileTest, "a full disk at any call leaves what was there") {
    const fs::path path = folder / "file";
    write_file(path, "old");
    // Making it, writing, flushing, renaming.
    for (int call = 1; call <= 4; ++call) {
        CAPTURE(call);
        set_fault_points("file.write:" + std::to_string(call) + "=errno=28");
        const std::string said =
            test::error_of(ErrorKind::io, [&] { write_new_file(path, "new"); });
        CHECK(said.starts_with(path.string()));
        CHECK(said.find("No space left on device") != std::string::npos);
        CHECK(read_file(path) == "old");
        CHECK(num_entries() == 1);
    }
    set_fault_points("file.write:1=errno=28");
    test::error_of(ErrorKind::io, [&] { make_folder(folder / "a"); });
    set_fault_points("file.write:2=errno=28");
    test::error_of(ErrorKind::io, [&] { write_file(path, "new"); });
}

TEST_CASE_FIXTURE(FileTest, "a wrong name is no fault of the disk") {
    write_file(folder / "file", "");
    const fs::path wrong = folder / "file" / "below";
    test::error_of(ErrorKind::cannot_create, [&] { write_file(wrong, "x"); });
    test::error_of(ErrorKind::cannot_create, [&] { write_new_file(wrong, "x"); });
    CHECK(test::error_of(ErrorKind::cannot_create, [&] {
              make_folder(wrong);
          }).starts_with(wrong.string()));
    test::error_of(ErrorKind::cannot_create, [&] { rename_path(folder / "no", folder / "a"); });
    test::error_of(ErrorKind::not_found, [&] { copy_to_new_file(folder / "no", folder / "a"); });
    make_folder(folder / "b" / "c");
    make_folder(folder / "b" / "c");
    CHECK(fs::is_directory(folder / "b" / "c"));
}

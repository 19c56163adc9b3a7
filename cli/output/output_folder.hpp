// Writes the files of one command, all or none.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace tidemark {

// Writes files under temporary names; commit() renames them. Without commit() nothing stays, not
// even the folder if it was made for this. Throws UserError naming the folder: cannot be made or
// written, or is a file.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  // Returns a stream that stays valid as long as the folder and is closed by commit().
  [[nodiscard]] std::ofstream& add(const std::string& name);
  void commit();
  // Commits, and removes what the last such commit left in the folder, this one has not written and
  // nobody has changed.
  void commit_replacing();
  [[nodiscard]] std::vector<std::string> written() const;  // paths, for the user
  // Returns the names of files of that last commit which may have been changed and are still there.
  [[nodiscard]] const std::vector<std::string>& left() const { return left_; }

 private:
  void close();

  struct File {
    std::filesystem::path final_path;
    std::filesystem::path temporary;
    std::unique_ptr<std::ofstream> stream;
  };

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // folders that were made, outermost first
  std::vector<File> files_;
  std::vector<std::string> left_;
  bool committed_ = false;
};

}  // namespace tidemark

// Keeps two sweeps from writing into one folder at the same time.
#pragma once

#include <string>

#include "scenarios/studies/journal/sweep_journal.hpp"

namespace tidemark {

// Holds the folder for one shard of a sweep until it is destroyed, or the process ends. Shards of
// one sweep may run beside each other.
class SweepLock {
 public:
  // Throws UserError where another process runs the same shard there, or another sweep; it says
  // which process. Where the file system knows no locks, nothing is held.
  SweepLock(const std::string& folder, const SweepIdentity& sweep, const Shard& shard);
  SweepLock(const SweepLock&) = delete;
  SweepLock& operator=(const SweepLock&) = delete;
  ~SweepLock();

 private:
  std::string path_;
  std::string made_;  // the folder, if it was made for this; removed if nothing is written into it
  int file_ = -1;
};

// Throws UserError where another process runs a sweep in the folder; it says which process.
void refuse_running_sweep(const std::string& folder);

}  // namespace tidemark

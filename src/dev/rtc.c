// SPDX-License-Identifier: Apache-2.0
// Reads the clock twice until both readings agree, so that an update in the middle cannot mix two
// seconds; gives up after a bounded number of looks.
#include "dev/rtc.h"

#include "arch/cpu.h"
#include "base/assert.h"
#include "base/mem.h"

#define PORT_INDEX 0x70u
#define PORT_DATA 0x71u
#define NMI_OFF 0x80u
#define REG_STATUS_A 0x0au
#define REG_STATUS_B 0x0bu
#define A_UPDATING 0x80u
#define B_BINARY 0x04u
#define B_24_HOURS 0x02u
#define READ_TRIES 1000u

struct reading {
  u8 second, minute, hour, day, month, year, century;
};

static u8 reg_read(u8 reg) {
  cpu_out8(PORT_INDEX, reg | NMI_OFF);
  return cpu_in8(PORT_DATA);
}

static struct reading read_once(u8 century_reg) {
  return (struct reading){.second = reg_read(0),
                          .minute = reg_read(2),
                          .hour = reg_read(4),
                          .day = reg_read(7),
                          .month = reg_read(8),
                          .year = reg_read(9),
                          .century = century_reg != 0 ? reg_read(century_reg) : 0};
}

static u8 plain(u8 v, bool binary) {
  return binary ? v : (u8)((v >> 4) * 10 + (v & 15));
}

// Howard Hinnant's days_from_civil, for years from 1970 on.
u64 rtc_unix_of(u32 year, u32 month, u32 day, u32 hour, u32 minute, u32 second) {
  ASSERT(year >= 1970);
  ASSERT(month >= 1);
  ASSERT(month <= 12);
  u32 y = month <= 2 ? year - 1 : year;
  u32 era = y / 400;
  u32 year_of_era = y - era * 400;
  u32 day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  u32 day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  u64 days = (u64)era * 146097 + day_of_era - 719468;
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

static u64 convert(struct reading r, u8 status_b) {
  bool binary = (status_b & B_BINARY) != 0;
  bool afternoon = (status_b & B_24_HOURS) == 0 && (r.hour & 0x80) != 0;
  u32 hour = plain(r.hour & 0x7f, binary);
  if ((status_b & B_24_HOURS) == 0) {
    hour = hour % 12 + (afternoon ? 12 : 0);
  }
  u32 month = plain(r.month, binary);
  u32 day = plain(r.day, binary);
  u32 short_year = plain(r.year, binary);
  u32 century = plain(r.century, binary);
  u32 year = century >= 19 && century <= 22 ? century * 100 + short_year
             : short_year >= 70             ? 1900 + short_year
                                            : 2000 + short_year;
  u32 minute = plain(r.minute, binary);
  u32 second = plain(r.second, binary);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 ||
      year < 1970 || short_year > 99) {
    return 0;
  }
  return rtc_unix_of(year, month, day, hour, minute, second);
}

u64 rtc_read_unix(u8 century_reg) {
  ASSERT(century_reg < 128);
  for (u32 i = 0; i < READ_TRIES; i++) {
    if ((reg_read(REG_STATUS_A) & A_UPDATING) != 0) {
      continue;
    }
    struct reading a = read_once(century_reg);
    struct reading b = read_once(century_reg);
    if (memcmp(&a, &b, sizeof a) == 0) {
      return convert(a, reg_read(REG_STATUS_B));
    }
  }
  return 0;
}

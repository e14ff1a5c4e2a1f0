/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a program can ask leasefs for through an open descriptor.
 *
 * Linux's open(2) has no word for a share mode: what an open lets others do meanwhile. So open the file first, then say
 * it with LEASEFS_IOC_SET_SHARE. It is judged against all other opens at that moment, as an SMB server judges a
 * second open. This interface is stable; a program may copy this file.
 *
 *     int fd = open(path, O_RDWR);
 *     struct leasefs_share alone = { LEASEFS_READ | LEASEFS_WRITE, 0 };
 *     if (ioctl(fd, LEASEFS_IOC_SET_SHARE, &alone) == -1 && errno == EBUSY)
 *             ... somebody else has it open ...
 *
 * Errors of all calls:
 *     EBUSY    the claim does not fit another open of the file
 *     EINVAL   wrong size, unknown bits, or bits that open(2) decided otherwise
 *     EPERM    SET_DELETE without delete access
 *     EIO      the handle was closed by `leasefs close-handle`
 *     ENOTTY   not a leasefs file, or not one of these calls
 */
#ifndef LEASEFS_H
#define LEASEFS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Classes: of access, and of what is shared. */
#define LEASEFS_READ   1u
#define LEASEFS_WRITE  2u
#define LEASEFS_DELETE 4u /* remove or rename */

struct leasefs_share {
	/*
	 * What this open does. READ and WRITE must be as open(2) was called: O_RDONLY, O_WRONLY, O_RDWR, or neither of the
	 * two for access mode 3 (O_ACCMODE). DELETE may be added and taken away here. A directory is READ.
	 */
	__u32 access;
	/* What others may do while this open lasts; 0 for nothing. */
	__u32 share;
};

struct leasefs_state {
	__u32 access;         /* of this open */
	__u32 share;          /* of this open */
	__u32 lease;          /* 1: the blob's lease is held for this file */
	__u32 delete_pending; /* 1: the file goes away with its last close */
	__u32 opens;          /* of the file, this one included */
	__u32 reserved;       /* 0 */
	__u64 open;           /* the number of this open, as `leasefs status` shows it */
};

/* Tightens or loosens the share mode of this open. All or nothing. */
#define LEASEFS_IOC_SET_SHARE  _IOW(0xE9, 1, struct leasefs_share)
/* What this open claims, and how its file stands. */
#define LEASEFS_IOC_GET_STATE  _IOR(0xE9, 2, struct leasefs_state)
/* 1: remove the file by name; it goes with its last close. 0: take that back. Files only; needs DELETE access. */
#define LEASEFS_IOC_SET_DELETE _IOW(0xE9, 3, __u32)

/*
 * On a directory: brings back the delete-pending file of this name in it. For the owner of the file and for root (EPERM
 * for others; ENOENT if no file of that name is delete pending). The name ends with NUL.
 */
struct leasefs_name {
	char name[256];
};
#define LEASEFS_IOC_UNDELETE   _IOW(0xE9, 4, struct leasefs_name)

#endif

//! A FUSE file that only copies memory, as a baseline: everything else that a filesystem in user space costs is the
//! difference.
//!
//! One thread waits for a request and answers it, with one system call for each, which is the minimum.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use forebay_fuse::codec::{
    self as fuse, FIXED, FuseAttributes, FuseFileKind, FuseOp, FuseRequest, init_flag, open_flag,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// Largest request, in bytes, as in the front ends.
const IO_BYTES_MAX: usize = 1 << 20;
const BACKGROUND_MAX: u16 = 1024;
const FILE: u64 = 2;
const NAME: &[u8] = b"memory";
const VALID_S: u64 = 3600;

/// Memory as a mounted file. Drop unmounts the file.
pub(super) struct FuseMemoryFile {
    dir: PathBuf,
    serving: Option<JoinHandle<io::Result<()>>>,
}

impl FuseMemoryFile {
    /// Mounts a file of `len` bytes.
    pub(super) fn mount(dir: &Path, len: u64) -> io::Result<FuseMemoryFile> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
            device.as_fd().as_raw_fd()
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("memory", dir, "fuse.memory", flags, options.as_c_str())?;
        // All of the memory is allocated before the measurement.
        let memory = vec![1; usize::try_from(len).map_err(io::Error::other)?];
        let serving = std::thread::spawn(move || serve(&device, memory));
        Ok(FuseMemoryFile {
            dir: dir.to_owned(),
            serving: Some(serving),
        })
    }

    pub(super) fn file(&self) -> PathBuf {
        self.dir.join("memory")
    }
}

impl Drop for FuseMemoryFile {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn serve(device: &File, mut memory: Vec<u8>) -> io::Result<()> {
    let mut fixed = [0; FIXED];
    let mut rest = vec![0; IO_BYTES_MAX + FIXED];
    loop {
        let mut parts = [IoSliceMut::new(&mut fixed), IoSliceMut::new(&mut rest)];
        let total = match rustix::io::readv(device, &mut parts) {
            Ok(total) => total,
            Err(Errno::NODEV) => return Ok(()),
            Err(Errno::NOENT | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let (header, front) = fixed[..total.min(FIXED)].split_at(total.min(fuse::HEADER));
        let data = &rest[..total.saturating_sub(FIXED)];
        let Ok(request) = fuse::decode(header, [front, data], 0) else {
            return Err(io::Error::other("a malformed request"));
        };
        if !matches!(request.op, FuseOp::Forget(_)) {
            answer(device, &request, data, &mut memory)?;
        }
    }
}

fn answer(device: &File, request: &FuseRequest, data: &[u8], memory: &mut [u8]) -> io::Result<()> {
    let range = |at: u64, len: u32| {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(memory.len());
        at..at.saturating_add(len as usize).min(memory.len())
    };
    let stat = stat(request.node, memory.len() as u64);
    let (mut errno, mut reply) = (0, Vec::new());
    match &request.op {
        &FuseOp::Read { at, len } => {
            let range = range(at, len);
            return send(device, request.unique, 0, &memory[range]);
        }
        &FuseOp::Write { at, len, .. } => {
            let range = range(at, len);
            let len = range.len();
            memory[range].copy_from_slice(&data[..len]);
            return send(device, request.unique, 0, &fuse::write_out(len as u32));
        }
        &FuseOp::Init { flags, .. } => {
            let limits = fuse::InitReply {
                flags: init_flag::ASYNC_READ
                    | init_flag::BIG_WRITES
                    | init_flag::ASYNC_DIO
                    | init_flag::MAX_PAGES,
                io_bytes_max: IO_BYTES_MAX as u32,
                read_ahead: IO_BYTES_MAX as u32,
                background_max: BACKGROUND_MAX,
            };
            reply.extend_from_slice(&fuse::init_out(flags, limits));
        }
        FuseOp::Lookup(name) if **name == *NAME => {
            let stat = self::stat(FILE, memory.len() as u64);
            reply.extend_from_slice(&fuse::entry_out(&stat, 0, VALID_S));
        }
        FuseOp::Lookup(_) => errno = Errno::NOENT.raw_os_error(),
        FuseOp::GetAttr | FuseOp::SetAttr(_) => {
            reply.extend_from_slice(&fuse::attr_out(&stat, VALID_S));
        }
        FuseOp::Open { .. } => {
            let flags = open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES;
            reply.extend_from_slice(&fuse::open_out(0, flags));
        }
        FuseOp::Release | FuseOp::Fsync(_) | FuseOp::Destroy => {}
        _ => errno = Errno::NOSYS.raw_os_error(),
    }
    send(device, request.unique, errno, &reply)
}

fn send(device: &File, unique: u64, errno: i32, payload: &[u8]) -> io::Result<()> {
    let header = fuse::out_header(unique, errno, payload.len());
    match rustix::io::writev(device, &[IoSlice::new(&header), IoSlice::new(payload)]) {
        // The kernel no longer waits for this answer.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn stat(node: u64, len: u64) -> FuseAttributes {
    let (kind, permissions, len) = match node {
        FILE => (FuseFileKind::File, 0o600, len),
        _ => (FuseFileKind::Directory, 0o700, 0),
    };
    FuseAttributes {
        node,
        mode: kind.mode() | permissions,
        links: 1,
        len,
        preferred_io: 4096,
        ..FuseAttributes::default()
    }
}

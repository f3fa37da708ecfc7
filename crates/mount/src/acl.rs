//! Access control lists of POSIX 1003.1e draft 17, in the form in which Linux stores them in extended attributes
//! (`linux/posix_acl_xattr.h`).

/// The attribute with the access control list of a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory with the list that new files in it inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;

const USER_OBJ: u16 = 0x01;
#[cfg(test)]
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
#[cfg(test)]
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An entry: the users it applies to, and their rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AclEntry {
    tag: u16,
    rights: u16,
    id: u32,
}

/// An access control list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessList(Vec<AclEntry>);

impl AccessList {
    /// Decodes a list. `None` if it is malformed or empty.
    pub(crate) fn decode(bytes: &[u8]) -> Option<AccessList> {
        let (version, rules) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || !rules.len().is_multiple_of(8) {
            return None;
        }
        let rule = |at: &[u8]| AclEntry {
            tag: u16::from_le_bytes([at[0], at[1]]),
            rights: u16::from_le_bytes([at[2], at[3]]) & 0o7,
            id: u32::from_le_bytes([at[4], at[5], at[6], at[7]]),
        };
        let list = AccessList(rules.chunks_exact(8).map(rule).collect());
        let has = |tag| list.0.iter().any(|rule| rule.tag == tag);
        let is_whole = has(USER_OBJ) && has(GROUP_OBJ) && has(OTHER);
        is_whole.then_some(list)
    }

    /// Encodes the list.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for rule in &self.0 {
            out.extend_from_slice(&rule.tag.to_le_bytes());
            out.extend_from_slice(&rule.rights.to_le_bytes());
            out.extend_from_slice(&rule.id.to_le_bytes());
        }
        out
    }

    /// Returns true if the list is equivalent to plain permissions.
    pub(crate) fn is_minimal(&self) -> bool {
        let mut rules = self.0.iter();
        rules.all(|rule| matches!(rule.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// Returns the permissions that correspond to the list, for a file that had the permissions `before`.
    pub(crate) fn permissions(&self, before: u16) -> u16 {
        let has_mask = self.0.iter().any(|rule| rule.tag == MASK);
        let shifted = |rule: &AclEntry| match rule.tag {
            USER_OBJ => rule.rights << 6,
            MASK => rule.rights << 3,
            GROUP_OBJ if !has_mask => rule.rights << 3,
            OTHER => rule.rights,
            _ => 0,
        };
        self.0
            .iter()
            .map(shifted)
            .fold(before & 0o7000, |all, one| all | one)
    }

    /// Returns the list with new permissions, as after `chmod`. The group's permissions become those of the mask, if
    /// the list has a mask.
    pub(crate) fn with_permissions(&self, permissions: u16) -> AccessList {
        let has_mask = self.0.iter().any(|rule| rule.tag == MASK);
        let changed = |rule: &AclEntry| {
            let rights = match rule.tag {
                USER_OBJ => permissions >> 6 & 0o7,
                MASK => permissions >> 3 & 0o7,
                GROUP_OBJ if !has_mask => permissions >> 3 & 0o7,
                OTHER => permissions & 0o7,
                _ => rule.rights,
            };
            AclEntry { rights, ..*rule }
        };
        AccessList(self.0.iter().map(changed).collect())
    }

    /// Applies a directory's default list to a new file with these permissions. Returns the file's list, and its
    /// resulting permissions. The list is `None` if the permissions are equivalent to it.
    pub(crate) fn inherited(&self, permissions: u16) -> (Option<AccessList>, u16) {
        let has_mask = self.0.iter().any(|rule| rule.tag == MASK);
        let narrowed = |rule: &AclEntry| {
            let rights = match rule.tag {
                USER_OBJ => rule.rights & permissions >> 6,
                MASK => rule.rights & permissions >> 3,
                GROUP_OBJ if !has_mask => rule.rights & permissions >> 3,
                OTHER => rule.rights & permissions,
                _ => rule.rights,
            };
            AclEntry { rights, ..*rule }
        };
        let list = AccessList(self.0.iter().map(narrowed).collect());
        let permissions = list.permissions(permissions);
        ((!list.is_minimal()).then_some(list), permissions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[(u16, u16, u32)]) -> AccessList {
        let rule = |(tag, rights, id): &(u16, u16, u32)| AclEntry {
            tag: *tag,
            rights: *rights,
            id: *id,
        };
        AccessList(rules.iter().map(rule).collect())
    }

    fn named() -> AccessList {
        list(&[
            (USER_OBJ, 7, u32::MAX),
            (USER, 6, 1000),
            (GROUP_OBJ, 5, u32::MAX),
            (GROUP, 4, 100),
            (MASK, 6, u32::MAX),
            (OTHER, 1, u32::MAX),
        ])
    }

    #[test]
    fn an_access_list_survives_encoding_and_malformed_bytes_are_refused() {
        assert_eq!(AccessList::decode(&named().encode()), Some(named()));
        let bytes = named().encode();
        for cut in [0, 3, 4, 11, 13] {
            assert_eq!(AccessList::decode(&bytes[..cut]), None, "{cut}");
        }
        let mut other = bytes;
        other[0] = 1;
        assert_eq!(AccessList::decode(&other), None);
    }

    #[test]
    fn the_mask_stands_for_the_group_in_permissions() {
        assert_eq!(named().permissions(0o4000), 0o4761);
        let changed = named().with_permissions(0o640);
        assert_eq!(changed.permissions(0), 0o640);
        let group = changed.0.iter().find(|rule| rule.tag == GROUP_OBJ);
        assert_eq!(group.map(|rule| rule.rights), Some(5));
        let minimal = list(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 5, 0), (OTHER, 4, 0)]);
        assert!(minimal.is_minimal() && !named().is_minimal());
        assert_eq!(minimal.with_permissions(0o111).permissions(0), 0o111);
    }

    #[test]
    fn a_new_file_gets_the_intersection_of_default_list_and_requested_mode() {
        let (inherited, permissions) = named().inherited(0o640);
        assert_eq!(permissions, 0o640);
        let inherited = inherited.expect("a list");
        let rights = |tag| {
            let found = inherited.0.iter().find(|rule| rule.tag == tag);
            found.map(|rule| rule.rights)
        };
        assert_eq!(rights(MASK), Some(4));
        assert_eq!(rights(USER), Some(6));
        let minimal = list(&[(USER_OBJ, 7, 0), (GROUP_OBJ, 5, 0), (OTHER, 0, 0)]);
        assert_eq!(minimal.inherited(0o666), (None, 0o640));
    }
}

//! The sum (exclusive or) of members' contents.

/// Adds `data` to `sum`, which has an equal length.
pub(crate) fn add(sum: &mut [u8], data: &[u8]) {
    let (words, rest) = sum.as_chunks_mut::<8>();
    let (data_words, data_rest) = data.as_chunks::<8>();
    for (sum, data) in words.iter_mut().zip(data_words) {
        *sum = (u64::from_ne_bytes(*sum) ^ u64::from_ne_bytes(*data)).to_ne_bytes();
    }
    for (sum, data) in rest.iter_mut().zip(data_rest) {
        *sum ^= data;
    }
}

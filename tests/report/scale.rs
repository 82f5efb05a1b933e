//! A large cluster: the page is complete, and small enough to be sent by mail.

use crate::cluster;
use crate::support::Folder;

/// Maximum size of the page in bytes.
const PAGE_MAX: usize = 25_000_000;

#[test]
fn page_of_5000_nodes_and_50000_pods_is_a_few_megabytes() {
    let folder = Folder::of(&cluster::cluster(5_000, 50_000));
    let few = folder.page(&["--score-tables", "10", "--explanations", "1"]);
    assert!(few.contains("api-6d4cf56db9-0c34") && few.contains("worker-b-1666"));
    // Score tables and explanations have a fixed maximum size, whatever the number of nodes.
    let none = folder.page(&["--score-tables", "0", "--explanations", "0"]);
    let each = few.len().saturating_sub(none.len()) / 10;
    assert!(each > 500, "score tables are there: {each} bytes each");
    let by_default = none.len() + 250 * each;
    assert!(by_default < PAGE_MAX, "{by_default} bytes, of which {} without tables", none.len());
}

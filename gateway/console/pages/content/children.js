import {get} from "../../lib/api.js";

const PAGE = 200;

/**
 * The nodes below one, or the roots, a page of them.
 * @param {string} parent id; empty: the roots
 * @param {number} skip
 * @returns {Promise<{items: any[], total: number}>}
 */
export const fetchChildren = (parent, skip) => get("content/children", {node: parent, skip, take: PAGE});
